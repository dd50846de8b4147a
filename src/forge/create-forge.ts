import type { ForgeKind } from "../model.ts";
import { ConfigError } from "../errors.ts";
import type { Forge } from "../ports.ts";
import type { ForgeOptions } from "./forge-options.ts";
import { createGiteaForge } from "./gitea/forge.ts";
import { withWebUrl } from "./web-url.ts";

export interface CreateForgeOptions extends ForgeOptions {
  readonly kind: ForgeKind;
  /** The address that users and deployments use, if it differs from that of the API. */
  readonly webUrl?: string | undefined;
}

/** Sends no request yet. The client libraries are large: each is loaded only on servers with such a forge. */
export async function createForge({ webUrl, ...options }: CreateForgeOptions): Promise<Forge> {
  const forge = await createAtApi(options);
  const { apiUrl } = options;
  return webUrl === undefined || apiUrl === undefined ? forge : withWebUrl(forge, { apiUrl, webUrl });
}

async function createAtApi({ kind, ...options }: Omit<CreateForgeOptions, "webUrl">): Promise<Forge> {
  if (kind === "github") return (await import("./github/forge.ts")).createGithubForge(options);

  const { id, apiUrl, login, timeoutMs, onAnswer } = options;
  if (!("token" in login)) throw new ConfigError(`forge ${id}: only GitHub supports Apps: set a token`);
  if (kind === "gitlab") {
    const { createGitlabForge } = await import("./gitlab/forge.ts");
    return createGitlabForge({ id, apiUrl, token: login.token, timeoutMs, onAnswer });
  }
  if (apiUrl === undefined) throw new ConfigError(`forge ${id}: a Gitea forge needs the URL of its API (apiUrl)`);
  return createGiteaForge({ id, apiUrl, token: login.token, timeoutMs, onAnswer });
}
