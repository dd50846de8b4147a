/** The webhooks of a project on GitLab: https://docs.gitlab.com/api/project_webhooks/ */
import { z } from "zod";
import { ForgeError } from "../../errors.ts";
import { createAsk, pathOf, readAnswer } from "../ask.ts";
import type { HostWebhooks } from "../../ports.ts";
import {
  type Hook,
  type Hooks,
  type WantedHook,
  describeEvents,
  hostOfAddress,
  isSameAddress,
  lackedEvents,
  sortWebhooks,
} from "../hooks.ts";
import { createGitlabApi, readPages } from "./api.ts";

const HookAnswer = z.object({
  id: z.int(),
  url: z.string(),
  push_events: z.boolean().nullish(),
  tag_push_events: z.boolean().nullish(),
  merge_requests_events: z.boolean().nullish(),
  /** Not `executable` after failed deliveries. */
  alert_status: z.string().nullish(),
  /** Only in newer versions of GitLab. */
  token_present: z.boolean().nullish(),
  signing_token_present: z.boolean().nullish(),
});

const events = ["push_events", "tag_push_events", "merge_requests_events"] as const;
const allEvents = { pushEvents: true, tagPushEvents: true, mergeRequestsEvents: true };

interface GitlabAccess {
  readonly apiUrl?: string | undefined;
  readonly token: string;
}

const publicApi = "https://gitlab.com/api/v4";
const needs = "managing webhooks needs the role Maintainer in the project, and a token with the scope api";

export function createGitlabHooks({ apiUrl = publicApi, token }: GitlabAccess, { url, secret }: WantedHook): Hooks {
  const ask = createAsk({ apiUrl, headers: { "private-token": token }, hint: needs, token });
  const { hooks } = createGitlabApi(ask, {});
  const isSigningKey = secret.startsWith("whsec_");
  const secretField = isSigningKey ? { signingToken: secret } : { token: secret };
  const readHook = (json: unknown, repoName: string) =>
    readAnswer(HookAnswer, { json, request: hooksOf(apiUrl, repoName) });

  /** An older GitLab silently accepts the signing key, and does not sign. */
  function checkSecret(answer: z.infer<typeof HookAnswer>): void {
    if (!isSigningKey || answer.signing_token_present === true) return;
    const why = "this GitLab does not support signing tokens (whsec_…): configure a plain secret, and rotate to it";
    throw new ForgeError("refused", why);
  }

  function toHook(repoName: string, answer: z.infer<typeof HookAnswer>): Hook {
    const has = events.filter((event) => answer[event] === true);
    const isOff = isDisabled(answer);
    const hasSecret = isSigningKey ? answer.signing_token_present !== false : answer.token_present !== false;
    const lackedOfEvents = describeEvents(lackedEvents(has, events));
    return {
      lacks: [
        ...lackedOfEvents,
        ...(hasSecret ? [] : ["it had no secret"]),
        ...(isOff ? [`GitLab had disabled it after failed deliveries (${answer.alert_status})`] : []),
      ],
      async repair({ rotate }) {
        const withSecret = rotate || !hasSecret;
        if (withSecret || lackedOfEvents.length > 0) {
          const fields = { ...allEvents, ...(withSecret && secretField) };
          const changed = readHook(await hooks.edit(repoName, answer.id, answer.url, fields), repoName);
          if (withSecret) checkSecret(changed);
        }
        if (!isOff) return;
        // One successful delivery enables the webhook again; there is no other way. The library cannot request it.
        const path = pathOf`/projects/${repoName}/hooks/${answer.id}/test/push_events`;
        await ask({ method: "POST", path }).catch(explainTest);
      },
    };
  }

  return {
    needs,
    async create(repoName) {
      const fields = { ...allEvents, enableSslVerification: true, ...secretField };
      checkSecret(readHook(await hooks.add(repoName, url, fields), repoName));
    },
    async ours(repoName) {
      const found = await readPages(HookAnswer, hooksOf(apiUrl, repoName), (page) => hooks.all(repoName, page));
      return found.filter((hook) => isSameAddress(hook.url, url)).map((hook) => toHook(repoName, hook));
    },
  };
}

/** For messages of errors. */
function hooksOf(apiUrl: string, repoName: string): string {
  return `the webhooks of ${repoName} at ${new URL(apiUrl).host}`;
}

/** GitLab stops after failed deliveries: for a while, and then for good. */
function isDisabled({ alert_status }: z.infer<typeof HookAnswer>): boolean {
  return !["executable", undefined, null].includes(alert_status);
}

/**
 * The webhooks of projects as GitLab shows them. Its list of deliveries is not read: it has neither times nor the ids
 * under which they arrive, so nothing in it can be assigned to a push.
 */
export function createGitlabWebhooks(
  id: string,
  { apiUrl = publicApi, token }: GitlabAccess,
): Pick<HostWebhooks, "find"> {
  const ask = createAsk({ apiUrl, headers: { "private-token": token }, hint: needs, token });
  return {
    async find(repoName, signal) {
      const { hooks } = createGitlabApi(ask, { signal });
      const all = await readPages(HookAnswer, hooksOf(apiUrl, repoName), (page) => hooks.all(repoName, page));
      const { ours, similar } = sortWebhooks(all, ({ url }) => url, id);
      return {
        similar,
        ours: ours.map((hook) => ({
          ...{ key: `${repoName} ${hook.id}`, host: hostOfAddress(hook.url) },
          isEnabled: !isDisabled(hook),
          sendsPushes: hook.push_events === true,
        })),
      };
    },
  };
}

function explainTest(error: unknown): never {
  if (!(error instanceof ForgeError) || error.problem === "rate-limited") throw error;
  const text = `its test delivery, which would enable it again, failed: can GitLab reach the server?`;
  throw new ForgeError(error.problem, `${text} (${error.message})`, { cause: error });
}
