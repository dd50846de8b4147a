/** The webhooks of a project on GitLab: https://docs.gitlab.com/api/project_webhooks/ */
import { z } from "zod";
import { ForgeError } from "../../errors.ts";
import { createAsk, pathOf, readAnswer } from "../ask.ts";
import { type Hook, type Hooks, type WantedHook, describeEvents, isSameAddress, lackedEvents } from "../hooks.ts";

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
const allEvents = { push_events: true, tag_push_events: true, merge_requests_events: true };
const perPage = 100;
const maxPages = 100;

export function createGitlabHooks(
  { apiUrl = "https://gitlab.com/api/v4", token }: { readonly apiUrl?: string | undefined; readonly token: string },
  { url, secret }: WantedHook,
): Hooks {
  const needs = "managing webhooks needs the role Maintainer in the project, and a token with the scope api";
  const ask = createAsk({ apiUrl, headers: { "private-token": token }, hint: needs, token });
  const isSigningKey = secret.startsWith("whsec_");
  const secretField = isSigningKey ? { signing_token: secret } : { token: secret };

  /** An older GitLab silently accepts the signing key, and does not sign. */
  function checkSecret(answer: z.infer<typeof HookAnswer>): void {
    if (!isSigningKey || answer.signing_token_present === true) return;
    const why = "this GitLab does not support signing tokens (whsec_…): configure a plain secret, and rotate to it";
    throw new ForgeError("refused", why);
  }

  function toHook(repoName: string, answer: z.infer<typeof HookAnswer>): Hook {
    const path = `${hooksPath(repoName)}${pathOf`/${answer.id}`}`;
    const has = events.filter((event) => answer[event] === true);
    const isOff = !["executable", undefined, null].includes(answer.alert_status);
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
          const body = { url: answer.url, ...allEvents, ...(withSecret && secretField) };
          const changed = readAnswer(HookAnswer, await ask({ method: "PUT", path, body }));
          if (withSecret) checkSecret(changed);
        }
        // One successful delivery enables the webhook again; there is no other way.
        if (isOff) await ask({ method: "POST", path: `${path}/test/push_events` }).catch(explainTest);
      },
    };
  }

  return {
    needs,
    async create(repoName) {
      const body = { url, ...allEvents, enable_ssl_verification: true, ...secretField };
      checkSecret(readAnswer(HookAnswer, await ask({ method: "POST", path: hooksPath(repoName), body })));
    },
    async ours(repoName) {
      const found: z.infer<typeof HookAnswer>[] = [];
      for (let page = 1; page <= maxPages; page++) {
        const query = { page, per_page: perPage };
        const answer = await ask({ path: hooksPath(repoName), query });
        found.push(...readAnswer(z.array(HookAnswer), answer));
        if (!answer.headers.get("x-next-page")) break;
      }
      return found.filter((hook) => isSameAddress(hook.url, url)).map((hook) => toHook(repoName, hook));
    },
  };
}

function hooksPath(repoName: string): string {
  return pathOf`/projects/${repoName}/hooks`;
}

function explainTest(error: unknown): never {
  if (!(error instanceof ForgeError) || error.problem === "rate-limited") throw error;
  const text = `its test delivery, which would enable it again, failed: can GitLab reach the server?`;
  throw new ForgeError(error.problem, `${text} (${error.message})`, { cause: error });
}
