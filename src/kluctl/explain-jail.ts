/** Explains why a confined run failed. */
import { KilledError, KluctlUnavailableError, PrepareError } from "../errors.ts";
import { notJailed } from "../jail/jail.ts";
import type { ConfinedRun } from "./confinement.ts";
import { explainOffline, noAccess, noNetwork } from "./offline.ts";
import type { Ended } from "./process.ts";

/** Replaces an error that is only a consequence of the jail by its cause. */
export function explainJail(error: unknown, { overfull, access }: ConfinedRun, ended: Ended | undefined): unknown {
  if (overfull.aborted) {
    const reason = overfull.reason as Error;
    return reason instanceof KilledError ? reason : new PrepareError(`the preview was ended because ${reason.message}`);
  }
  if (ended?.exitCode === notJailed) {
    return new KluctlUnavailableError(`previews cannot be confined here: ${ended.stderr.trim().slice(-300)}`);
  }
  if (!(error instanceof PrepareError)) return error;
  if (access === noAccess) return explainOffline(error);
  return withReasons(error, [
    ...(access.refusals?.() ?? []),
    ...(noNetwork.test(error.message) ? [loopback.test(error.message) ? loopbackAdvice : noNetworkAdvice] : []),
  ]);
}

/** Appends the reasons that the message does not contain yet. */
export function withReasons(error: PrepareError, reasons: readonly string[]): PrepareError {
  const news = reasons.filter((words) => !error.message.includes(words));
  return news.length === 0 ? error : new PrepareError([`${error.message}\n`, ...news].join("\n"));
}

const noNetworkAdvice =
  "previews reach hosts through a proxy only, which `http` vars and ssh cannot use: fetch over https, or keep a copy in the repository";

/** Programs in Go use no proxy for these, whatever their environment says. */
const loopback = /\bdial tcp (?:127\.|\[::1\])/;
const loopbackAdvice =
  "previews reach hosts through a proxy only, which kluctl does not use for addresses of this machine (127.0.0.1, ::1): use another address of the host";
