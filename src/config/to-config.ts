/** Turns what the schema has parsed into the Config. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { z } from "zod";
import { readMemory } from "../machine/available-memory.ts";
import type { ConfigSources } from "./merge.ts";
import type { configSchema } from "./schema.ts";
import { Secret } from "./secret.ts";
import type { Config, ForgeConfig } from "./shape.ts";

/** Memory of the server and of one kluctl. */
const [ownBytes, kluctlBytes] = [300 * 1024 ** 2, 200 * 1024 ** 2];

type ParsedPage = z.output<typeof configSchema>["page"];

/** Fills in the defaults that depend on the machine and the environment. */
export function toConfig(parsed: z.output<typeof configSchema>, env: ConfigSources["env"]): Config {
  const { forges, webhooks, redis, kluctl, sweep, lease, preview, git, shutdown, dataDir, concurrency, page, ...rest } =
    parsed;
  const { recording, ...same } = rest;
  const cores = availableParallelism();
  const fitting = Math.floor((readMemory().limitBytes - ownBytes) / kluctlBytes);
  return {
    ...same,
    forges: forges.map(toForge),
    webhooks: {
      host: webhooks.host,
      port: webhooks.port,
      maxBodyBytes: webhooks.maxBody,
      proxyAddresses: webhooks.proxyAddresses,
    },
    page: toPage(page),
    dataDir: dataDir ?? defaultDataDir(env),
    redis: toRedis(redis),
    kluctl: {
      path: kluctl.path,
      cacheDir: kluctl.cacheDir ?? (env["KLUCTL_CACHE_DIR"] || undefined),
      unpackedDir: kluctl.unpackedDir,
      systemPython: kluctl.systemPython,
      warm: kluctl.warm === "on" && !kluctl.systemPython,
    },
    concurrency: concurrency ?? Math.max(1, Math.min(64, Math.max(2, cores), fitting)),
    sweep: {
      intervalMs: sweep.interval,
      adaptive: sweep.adaptive,
      skipping: sweep.skipping,
      fullIntervalMs: sweep.fullInterval,
      auditSkips: sweep.auditSkips,
    },
    lease: { durationMs: lease.duration },
    preview: {
      enabled: preview.enabled,
      isolation: preview.isolation,
      forks: preview.forks,
      forksInMergeQueue: preview.forksInMergeQueue,
      serviceAccountName: preview.serviceAccountName,
      hosts: preview.hosts,
      concurrency: preview.concurrency ?? Math.min(64, Math.max(2, Math.floor(cores / 2))),
      intervalMs: preview.interval,
      runner: toRunner(preview.runner),
    },
    recording: {
      enabled: recording.enabled,
      days: recording.days,
      maxDeliveries: recording.maxDeliveries,
      maxSizeBytes: recording.maxSize,
      keys: recording.keys,
    },
    git: { timeoutMs: git.timeout },
    shutdown: { drainMs: shutdown.drain },
  };
}

function toPage({
  proxyHeader,
  proxyGroupsHeader,
  proxyAddresses,
  oidc: parsedOidc,
  ...page
}: ParsedPage): Config["page"] {
  const { proxySecret, proxySecretHeader } = page;
  const oidc = toOidc(parsedOidc);
  if (page.token === undefined && proxyHeader === undefined && oidc === undefined) return undefined;
  const {
    host,
    port,
    token,
    tokenRole,
    viewerGroups,
    operatorGroups,
    namespacesByGroup,
    actAs,
    userPrefix,
    groupPrefix,
  } = page;
  const proxy =
    proxyHeader === undefined
      ? undefined
      : {
          header: proxyHeader,
          groupsHeader: proxyGroupsHeader,
          addresses: proxyAddresses,
          ...(proxySecret && { secret: { header: proxySecretHeader, value: proxySecret } }),
        };
  return {
    ...{ host, port, token, tokenRole, proxy, oidc, operatorGroups, namespacesByGroup, actAs, userPrefix, groupPrefix },
    publicUrl: (page.publicUrl ?? (oidc && new URL("/", oidc.redirectUrl).href))?.replace(/\/+$/, ""),
    // A token is shared by few; with logins of their own, the readers of a comment have one.
    pullRequestLinks: page.pullRequestLinks ?? (proxy || oidc ? "login" : "signed"),
    // Without groups, an authenticating proxy decides who has access.
    viewerGroups: viewerGroups.length + operatorGroups.length === 0 ? ["*"] : viewerGroups,
  };
}

function toRunner({ address, token, bindAddress }: z.output<typeof configSchema>["preview"]["runner"]) {
  return { address, token, bindAddress };
}

/** `undefined` unless complete; `checkDocument` reports missing keys. */
function toOidc({ issuer, clientId, clientSecret, redirectUrl, session, ...rest }: ParsedPage["oidc"]) {
  if (!issuer || !clientId || !clientSecret || !redirectUrl) return undefined;
  const { scopes, nameClaim, groupsClaim } = rest;
  return { issuer, clientId, clientSecret, redirectUrl, scopes, nameClaim, groupsClaim, sessionMs: session };
}

function toRedis(redis: z.output<typeof configSchema>["redis"]): Config["redis"] {
  const { url, password, caFile, sentinels, sentinelPassword, prefix, server } = redis;
  return { url: url && withPassword(url, password), caFile, sentinels, sentinelPassword, prefix, server };
}

function toForge(forge: z.output<typeof configSchema>["forges"][number]): ForgeConfig {
  const { id, kind, apiUrl, webUrl, hosts, webhooks, deployments, webhookSecrets, token, appId, appPrivateKey } = forge;
  const app = appId !== undefined && appPrivateKey !== undefined ? { id: appId, privateKey: appPrivateKey } : undefined;
  const { reportAs, insecureAllowUnsigned } = forge;
  const common = { id, kind, apiUrl, webUrl, hosts, webhooks, deployments, webhookSecrets, token, app };
  return { ...common, reportAs, insecureAllowUnsigned };
}

export function defaultDataDir(env: ConfigSources["env"]): string {
  if (env["XDG_STATE_HOME"]) return join(env["XDG_STATE_HOME"], "towline");
  return env["HOME"] ? join(env["HOME"], ".local/state/towline") : "/var/lib/towline";
}

function withPassword(url: Secret, password: Secret | undefined): Secret {
  if (password === undefined) return url;
  const whole = new URL(url.reveal());
  whole.password = encodeURIComponent(password.reveal());
  return new Secret(whole.href);
}
