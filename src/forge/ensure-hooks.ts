/** Creates and repairs the webhooks of one forge, of any kind. */
import type { ForgeKind } from "../model.ts";
import { ConfigError } from "../errors.ts";
import type { ForgeOptions } from "./forge-options.ts";
import { createGiteaHooks } from "./gitea/hooks.ts";
import { ensureAppHook, examineInstallation } from "./github/app-hook.ts";
import { createGithubHooks } from "./github/hooks.ts";
import { createWire } from "./github/wire.ts";
import { createGitlabHooks } from "./gitlab/hooks.ts";
import { type Ensured, type EnsureOptions, ensureHook, type Hooks, type WantedHook } from "./hooks.ts";

export interface EnsureHooksOptions extends Pick<ForgeOptions, "id" | "apiUrl" | "login" | "log">, EnsureOptions {
  readonly kind: ForgeKind;
  readonly wanted: WantedHook;
  readonly repoNames: readonly string[];
}

/** Sequential: hosts limit the writes per minute. No further requests are sent to a host that reports a rate limit. */
export async function ensureHooks(options: EnsureHooksOptions): Promise<Ensured[]> {
  const results: Ensured[] = [];
  for (const { name, look } of stepsOf(options)) {
    const waitMs = results.at(-1)?.waitMs;
    const why = [
      `not checked: the host's rate limit is exceeded for ${Math.ceil((waitMs ?? 0) / 1_000)} s; try again then`,
    ];
    results.push(waitMs === undefined ? await look() : { name, result: "failed", why, waitMs });
  }
  return results;
}

interface Step {
  readonly name: string;
  readonly look: () => Promise<Ensured>;
}

function stepsOf(options: EnsureHooksOptions): Step[] {
  const { login, repoNames, wanted } = options;
  if ("token" in login) {
    const hooks = createHooks(options, login.token);
    return repoNames.map((name) => ({ name, look: () => ensureHook(hooks, name, options) }));
  }
  const wire = githubWire(options, login.app);
  return [
    { name: "the App's webhook", look: () => ensureAppHook(wire, wanted, options) },
    ...repoNames.map((name) => ({ name, look: () => examineInstallation(wire, name) })),
  ];
}

function createHooks({ id, kind, apiUrl, wanted, ...options }: EnsureHooksOptions, token: string): Hooks {
  switch (kind) {
    case "github":
      return createGithubHooks(token, githubWire({ apiUrl, ...options }), wanted);
    case "gitlab":
      return createGitlabHooks({ apiUrl, token }, wanted);
    case "gitea":
      if (apiUrl === undefined) throw new ConfigError(`forge ${id}: a Gitea forge needs the URL of its API (apiUrl)`);
      return createGiteaHooks({ apiUrl, token }, wanted);
  }
}

const timeoutMs = 10_000;

function githubWire(
  { apiUrl = "https://api.github.com", log }: Pick<EnsureHooksOptions, "apiUrl" | "log">,
  app?: { readonly appId: string; readonly privateKey: string },
) {
  return createWire({ apiUrl: apiUrl.replace(/\/+$/, ""), timeoutMs, log, app });
}
