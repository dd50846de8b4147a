/** Reads the webhooks of one forge's repositories at its host, of any kind. Sends no request yet. */
import type { ForgeKind } from "../model.ts";
import { ConfigError } from "../errors.ts";
import type { HostWebhooks } from "../ports.ts";
import type { ForgeOptions } from "./forge-options.ts";

export interface HostWebhooksOptions extends Pick<ForgeOptions, "id" | "apiUrl" | "login" | "log" | "onAnswer"> {
  readonly kind: ForgeKind;
}

type FindWebhooks = Pick<HostWebhooks, "find">;

const timeoutMs = 10_000;

/** The client libraries are large: each is loaded when it is first needed. */
export function createHostWebhooks(options: HostWebhooksOptions): HostWebhooks {
  let made: Promise<FindWebhooks> | undefined;
  // GitLab could, but all that is read of its deliveries is found by the sweeps; Gitea's API has no such request.
  return {
    repeats: options.kind === "github",
    find: async (...asked) => (await (made ??= createOfKind(options))).find(...asked),
  };
}

async function createOfKind({ id, kind, apiUrl, login, log, onAnswer }: HostWebhooksOptions): Promise<FindWebhooks> {
  if (kind === "github") {
    const { createGithubWebhooks } = await import("./github/host-webhooks.ts");
    const { createWire } = await import("./github/wire.ts");
    const url = (apiUrl ?? "https://api.github.com").replace(/\/+$/, "");
    const wireFor: Parameters<typeof createGithubWebhooks>[0]["wireFor"] = (app) =>
      createWire({ apiUrl: url, timeoutMs, log, app, onAnswer });
    return createGithubWebhooks({ id, login, wireFor });
  }
  if (!("token" in login)) throw new ConfigError(`forge ${id}: only GitHub supports Apps: set a token`);
  const { token } = login;
  if (kind === "gitlab") return (await import("./gitlab/hooks.ts")).createGitlabWebhooks(id, { apiUrl, token });
  if (apiUrl === undefined) throw new ConfigError(`forge ${id}: a Gitea forge needs the URL of its API (apiUrl)`);
  return (await import("./gitea/hooks.ts")).createGiteaWebhooks(id, { apiUrl, token });
}
