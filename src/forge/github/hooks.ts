/** The webhooks of a repository on GitHub, with a token. */
import { z } from "zod";
import { type Hook, type Hooks, type WantedHook, describeEvents, isSameAddress, lackedEvents } from "../hooks.ts";
import { type Client, type GithubCall, createClient } from "./client.ts";
import { createTokenLogin } from "./login.ts";
import type { Wire } from "./wire.ts";

export const HookConfig = z.object({
  url: z.string().nullish(),
  content_type: z.string().nullish(),
  /** Asterisks if a secret is set. */
  secret: z.string().nullish(),
});

const HookAnswer = z.object({ id: z.int(), active: z.boolean(), events: z.array(z.string()), config: HookConfig });

/** The events that the server handles. */
export const githubEvents: readonly string[] = ["push", "pull_request"];
const perPage = 100;
const maxPages = 20;

export function createGithubHooks(token: string, wire: Wire, { url, secret }: WantedHook): Hooks {
  const client = createClient(wire, createTokenLogin(token, wire));
  const callFor = (repoName: string, what: string): GithubCall => ({
    ...{ what: `${what} of ${repoName}`, repoName },
    ...{ permission: "repository_hooks", signal: undefined },
  });

  function toHook(repoName: string, { id: hook_id, active, events, config }: z.infer<typeof HookAnswer>): Hook {
    const lacked = lackedEvents(events, githubEvents);
    const wrong = lackOfConfig(config);
    return {
      lacks: [
        ...describeEvents(events.includes("*") ? [] : lacked),
        ...wrong,
        ...(active ? [] : ["it was not active"]),
      ],
      async repair({ rotate }) {
        const call = callFor(repoName, "repair the webhook");
        if (wrong.length > 0 || rotate) {
          // A separate request: in the main one a configuration without the secret would remove it.
          const fields = { content_type: "json", ...((rotate || !config.secret) && { secret }) };
          await client.ask("PATCH /repos/{owner}/{repo}/hooks/{hook_id}/config", { hook_id, ...fields }, call);
        }
        const add = events.includes("*") ? [] : lacked;
        if (add.length > 0 || !active) {
          const fields = { active: true, ...(add.length > 0 && { add_events: add }) };
          await client.ask("PATCH /repos/{owner}/{repo}/hooks/{hook_id}", { hook_id, ...fields }, call);
        }
      },
    };
  }

  return {
    needs:
      "managing webhooks needs administrator rights on the repository, and a token with Webhooks: read and write (classic: admin:repo_hook)",
    async create(repoName) {
      const config = { url, content_type: "json", insecure_ssl: "0", secret };
      const body = { name: "web", active: true, events: [...githubEvents], config };
      await client.ask("POST /repos/{owner}/{repo}/hooks", body, callFor(repoName, "create the webhook"));
    },
    async ours(repoName) {
      const found = await listHooks(client, callFor(repoName, "list the webhooks"));
      return found.filter(({ config }) => isSameAddress(config.url, url)).map((hook) => toHook(repoName, hook));
    },
  };
}

export async function listHooks(client: Client, call: GithubCall): Promise<z.infer<typeof HookAnswer>[]> {
  const found: z.infer<typeof HookAnswer>[] = [];
  for (let page = 1; page <= maxPages; page++) {
    const answer = await client.ask("GET /repos/{owner}/{repo}/hooks", { per_page: perPage, page }, call);
    const hooks = client.read(z.array(HookAnswer), answer, call);
    found.push(...hooks);
    if (hooks.length < perPage) break;
  }
  return found;
}

/** The same for a repository's webhook and an App's. */
export function lackOfConfig({ content_type, secret }: z.infer<typeof HookConfig>): string[] {
  return [
    ...(content_type === "json" ? [] : ["its content type was not application/json"]),
    ...(secret ? [] : ["it had no secret"]),
  ];
}
