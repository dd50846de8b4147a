/** The webhooks of a repository on Gitea or Forgejo. */
import { z } from "zod";
import type { HostWebhooks } from "../../ports.ts";
import { type Ask, type Question, createAsk, pathOf, readAnswer } from "../ask.ts";
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

const HookAnswer = z.object({
  id: z.int(),
  type: z.string(),
  active: z.boolean(),
  config: z.object({ url: z.string().nullish(), content_type: z.string().nullish() }),
  events: z.array(z.string()).nullish(),
  branch_filter: z.string().nullish(),
  authorization_header: z.string().nullish(),
});

/**
 * In requests `pull_request` means all events of pull requests, including comments, some of which are our own. In
 * responses it means only the single event that is called `pull_request_only` here.
 */
const events = ["push", "delete", "pull_request_only", "pull_request_sync"];
const wantedEvents = ["push", "delete", "pull_request", "pull_request_sync"];
/** Webhooks of other types have another body. */
const types = ["gitea", "forgejo"];
const pageSize = 50;
const maxPages = 100;

interface GiteaAccess {
  readonly apiUrl: string;
  readonly token: string;
}

const needs =
  "managing webhooks needs administrator rights on the repository, and a token with the scope write:repository";

export function createGiteaHooks({ apiUrl, token }: GiteaAccess, { url, secret }: WantedHook): Hooks {
  const ask = createAsk({ apiUrl, headers: { authorization: `token ${token}` }, hint: needs, token });
  const config = { url, content_type: "json", secret };

  async function create(repoName: string): Promise<void> {
    const body = { type: "gitea", active: true, branch_filter: "*", events, config };
    await ask({ method: "POST", path: hooksPath(repoName), body });
  }

  function toHook(repoName: string, answer: z.infer<typeof HookAnswer>): Hook {
    const path = `${hooksPath(repoName)}${pathOf`/${answer.id}`}`;
    const has = answer.events ?? [];
    const lacks = [
      ...describeEvents(lackedEvents(has, wantedEvents)),
      ...(answer.config.content_type === "json" ? [] : ["its content type was not application/json"]),
      ...(answer.active ? [] : ["it was not active"]),
    ];
    return {
      lacks,
      async repair({ rotate }) {
        const kept = {
          active: true,
          events: [...new Set([...has.filter((event) => event !== "pull_request"), ...events])],
          // Gitea empties fields that are not sent.
          branch_filter: answer.branch_filter ?? "*",
          ...(answer.authorization_header && { authorization_header: answer.authorization_header }),
        };
        if (!rotate) {
          await ask({ method: "PATCH", path, body: { ...kept, config: { url, content_type: "json" } } });
          return;
        }
        // The API cannot change a secret: a new webhook replaces the old one, and exists before the old one is deleted.
        const question = { method: "POST", path: hooksPath(repoName) } satisfies Question;
        await ask({ ...question, body: { type: answer.type, ...kept, config } });
        await ask({ method: "DELETE", path });
      },
    };
  }

  return {
    needs,
    create,
    async ours(repoName) {
      return (await listHooks(ask, repoName))
        .filter(({ type, config: { url: to } }) => types.includes(type) && isSameAddress(to, url))
        .map((hook) => toHook(repoName, hook));
    },
  };
}

async function listHooks(ask: Ask, repoName: string, signal?: AbortSignal): Promise<z.infer<typeof HookAnswer>[]> {
  const found: z.infer<typeof HookAnswer>[] = [];
  for (let page = 1; page <= maxPages; page++) {
    const answer = await ask({ path: hooksPath(repoName), query: { page, limit: pageSize }, signal });
    const hooks = readAnswer(z.array(HookAnswer), answer);
    found.push(...hooks);
    if (hooks.length === 0 || found.length >= Number(answer.headers.get("x-total-count") ?? 0)) break;
  }
  return found;
}

/** The webhooks of repositories as Gitea shows them: its API neither lists deliveries nor repeats them. */
export function createGiteaWebhooks(id: string, { apiUrl, token }: GiteaAccess): Pick<HostWebhooks, "find"> {
  const ask = createAsk({ apiUrl, headers: { authorization: `token ${token}` }, hint: needs, token });
  return {
    async find(repoName, signal) {
      const all = (await listHooks(ask, repoName, signal)).filter(({ type }) => types.includes(type));
      const { ours, similar } = sortWebhooks(all, ({ config }) => config.url, id);
      return {
        similar,
        ours: ours.map(({ id: hook, config, active, events: has }) => ({
          ...{ key: `${repoName} ${hook}`, host: hostOfAddress(config.url), isEnabled: active },
          sendsPushes: has?.includes("push") === true,
        })),
      };
    },
  };
}

function hooksPath(repoName: string): string {
  const [owner = "", ...rest] = repoName.split("/");
  return pathOf`/repos/${owner}/${rest.join("/")}/hooks`;
}
