/** Git hosts that refuse Towline's login, or will soon. Pure. */
import {
  type AnyDeployment,
  expiresSoon,
  followsGit,
  type LoginState,
  type NoticeLine,
  type RepoId,
} from "../../model.ts";
import { utcText } from "../../kit/utc-text.ts";
import type { Notice } from "./notices.ts";

export interface ForgeWithLogin {
  readonly id: string;
  /** Absent until the host has answered. */
  readonly state: LoginState | undefined;
  readonly has: (repo: RepoId) => boolean;
}

/** One for each forge, about the deployments that follow its repositories. */
export function loginNotices(
  forges: readonly ForgeWithLogin[],
  all: readonly AnyDeployment[],
  now: number,
): readonly Notice[] {
  return forges.flatMap(({ id, state, has }): Notice[] => {
    const lines = state === undefined ? [] : linesOf(state, now);
    if (state !== undefined && lines.length === 0) return [];
    return [
      {
        ...{ subject: `login ${id}`, kind: "login", settled: true, about: id, lines },
        // What is not known yet has not changed.
        state: state === undefined ? "progress" : "open",
        events: new Set(["login"]),
        unchanged: 0,
        deployments: all.filter((deployment) => followsGit(deployment) && has(deployment.repo)),
        members: [],
      },
    ];
  });
}

/** Different names: that a login is refused is news also after its end was announced. */
function linesOf({ refused, expiresAt }: LoginState, now: number): NoticeLine[] {
  if (refused !== undefined)
    return [{ name: "login", state: "failed", text: `${refused.why}; since ${utcText(refused.since)} or earlier` }];
  if (expiresAt === undefined || !expiresSoon({ expiresAt }, now)) return [];
  const text = `${utcText(expiresAt)}; create a new token and configure it before then`;
  return [{ name: "expiry", state: "warning", text }];
}
