/**
 * Checks that involve several keys. They run on the document before the schema parses it, so that their problems are
 * reported together with those of the schema.
 */
import { parseBindAddress } from "./bind-address.ts";
import { isSection, type ConfigSection } from "./merge.ts";
import { pathText, type Problem } from "./problems.ts";
import { shortestWebhookSecret } from "./schema-values.ts";

export function checkDocument(document: ConfigSection): Problem[] {
  return [
    ...checkForges(document["forges"]),
    ...checkPorts(document),
    ...checkRedis(document["redis"]),
    ...checkUi(document),
    ...checkPreview(sectionOf(document, "preview")),
    ...checkNotifications(sectionOf(document, "notifications")),
  ];
}

function checkForges(forges: unknown): Problem[] {
  if (!Array.isArray(forges)) return [];
  const problems: Problem[] = [];
  const ids = new Set<unknown>();
  for (const [index, forge] of forges.entries()) {
    if (!isSection(forge)) continue;
    const { id, kind, webhooks, webhookSecrets, insecureAllowUnsigned } = forge;
    if (typeof id === "string" && ids.has(id)) {
      problems.push({ where: pathText(["forges", index, "id"]), what: `"${id}" is already used by another forge` });
    }
    ids.add(id);
    if (forge["webUrl"] !== undefined && forge["apiUrl"] === undefined) {
      problems.push({
        where: pathText(["forges", index, "webUrl"]),
        what: "is set without apiUrl: set both or neither",
      });
    }
    problems.push(
      ...checkDeployments(forge).map((what) => ({ where: pathText(["forges", index, "deployments"]), what })),
    );
    problems.push(...checkLogin(forge).map(([key, what]) => ({ where: pathText(["forges", index, key]), what })));
    if (webhooks === false) {
      if (Array.isArray(webhookSecrets) && webhookSecrets.length > 0) {
        const where = pathText(["forges", index, "webhooks"]);
        problems.push({ where, what: "is false, but webhookSecrets are set: remove one" });
      }
      continue;
    }
    const unsigned = webhookSecrets === undefined || (Array.isArray(webhookSecrets) && webhookSecrets.length === 0);
    if (!unsigned || insecureAllowUnsigned === true) continue;
    const variable =
      typeof id === "string" && id === kind ? `set TOWLINE_${id.toUpperCase()}_WEBHOOK_SECRET` : "set it";
    problems.push({
      where: pathText(["forges", index, "webhookSecrets"]),
      what: `is empty: ${variable} or a file, with ${shortestWebhookSecret} characters or more`,
    });
  }
  return problems;
}

function checkDeployments({ kind, deployments, token, appId }: ConfigSection): string[] {
  if (deployments !== true) return [];
  if (kind === "gitea")
    return ["is supported for kinds github and gitlab only: Gitea and Forgejo have no environments"];
  return token === undefined && appId === undefined ? ["is true without a login: set a token or a GitHub App"] : [];
}

/** Returns pairs of a key and its problem. */
function checkLogin({ kind, apiUrl, token, appId, appPrivateKey, reportAs }: ConfigSection): [string, string][] {
  if (reportAs === "checks" && appId === undefined) {
    return [["reportAs", "is checks, which only a GitHub App may write: set appId, or use statuses"]];
  }
  if (kind === "gitea" && token !== undefined && apiUrl === undefined) {
    return [["apiUrl", "is missing: a token for Gitea needs the address of its API"]];
  }
  if (appId === undefined && appPrivateKey === undefined) return [];
  if (kind !== "github") return [["appId", "is supported for kind github only: use a token"]];
  if (token !== undefined) return [["appId", "and token are both set: remove one"]];
  if (appId === undefined) return [["appId", "is missing: a private key needs the ID of its App"]];
  if (appPrivateKey === undefined) return [["appPrivateKey", "is missing: set it, or appPrivateKeyFile"]];
  return [];
}

/** Reports addresses that are used twice. Invalid addresses are left to the schema; port 0 never conflicts. */
function checkPorts(document: ConfigSection): Problem[] {
  const forges = document["forges"];
  const admin = sectionOf(document, "admin");
  const addresses: [string, string, unknown, unknown][] = [];
  if (Array.isArray(forges) && forges.length > 0) {
    const { host, port = 8080 } = sectionOf(document, "webhooks");
    addresses.push(["webhooks.port", "webhooks", host, port]);
  }
  if (admin["enabled"] !== false) {
    const { host, port = 9090 } = admin;
    addresses.push(["admin.port", "health and metrics", host, port]);
  }
  const page = sectionOf(document, "page");
  if (hasAccess(page)) addresses.push(["page.port", "the page and its API", page["host"], page["port"] ?? 8090]);
  for (const [key, purpose] of [
    ["metrics", "metrics"],
    ["probes", "probes"],
    ["sourceOverride", "source overrides"],
  ] as const) {
    const { bindAddress } = sectionOf(document, key);
    const address = typeof bindAddress === "string" ? parseBindAddress(bindAddress.trim()) : undefined;
    if (typeof address === "object") addresses.push([`${key}.bindAddress`, purpose, address.host, address.port]);
  }
  return addresses.flatMap(([where, purpose, host, port], index) => {
    if (port === 0) return [];
    const other = addresses.slice(0, index).find((before) => before[3] === port && meet(before[2], host));
    return other ? [{ where, what: `is the same as ${other[0]}: use another port for ${purpose}` }] : [];
  });
}

function hasAccess(page: ConfigSection): boolean {
  return (
    page["token"] !== undefined || page["proxyHeader"] !== undefined || sectionOf(page, "oidc")["issuer"] !== undefined
  );
}

function checkUi(document: ConfigSection): Problem[] {
  const page = sectionOf(document, "page");
  return [...checkProxy(document), ...checkOidc(page), ...checkLinks(page)];
}

function checkLinks(page: ConfigSection): Problem[] {
  const links = page["pullRequestLinks"];
  const address = page["publicUrl"] ?? sectionOf(page, "oidc")["redirectUrl"];
  if (links === undefined || links === "off" || address !== undefined) return [];
  return [{ where: "page.publicUrl", what: "is missing: page.pullRequestLinks needs the public address of the page" }];
}

const neededForOidc = ["issuer", "clientId", "clientSecret", "redirectUrl"];

function checkOidc(page: ConfigSection): Problem[] {
  const oidc = sectionOf(page, "oidc");
  const missing = neededForOidc.filter((key) => oidc[key] === undefined);
  if (missing.length === neededForOidc.length) return [];
  const problems = missing.map((key) => ({
    where: `page.oidc.${key}`,
    what: "is missing: logins need issuer, clientId, clientSecret (or clientSecretFile) and redirectUrl",
  }));
  const isEmpty = (list: unknown) => list === undefined || list === "" || (Array.isArray(list) && list.length === 0);
  if (isEmpty(page["viewerGroups"]) && isEmpty(page["operatorGroups"]))
    problems.push({
      where: "page.viewerGroups",
      what: 'and page.operatorGroups are both empty: list groups, or "*" for every user who can log in at the provider',
    });
  return problems;
}

function checkPreview({ forks, isolation }: ConfigSection): Problem[] {
  if (forks !== "isolated" || isolation !== "off") return [];
  return [
    {
      where: "preview.forks",
      what: "is isolated but preview.isolation is off: set preview.isolation to required or auto",
    },
  ];
}

function checkNotifications({ targets, routes }: ConfigSection): Problem[] {
  const ids = (Array.isArray(targets) ? targets : []).map((target) => (isSection(target) ? target["id"] : undefined));
  const twice = ids.flatMap((id, index) =>
    typeof id === "string" && ids.indexOf(id) < index
      ? [
          {
            where: pathText(["notifications", "targets", index, "id"]),
            what: `"${id}" is already used by another target`,
          },
        ]
      : [],
  );
  const unknown = (Array.isArray(routes) ? routes : []).flatMap((route, index) => {
    const target: unknown = isSection(route) ? route["target"] : undefined;
    return typeof target !== "string" || ids.includes(target)
      ? []
      : [
          {
            where: pathText(["notifications", "routes", index, "target"]),
            what: `"${target}" is not the id of a target`,
          },
        ];
  });
  return [...twice, ...unknown];
}

function checkProxy(document: ConfigSection): Problem[] {
  const { proxyHeader, proxyGroupsHeader, proxySecret, proxyAddresses = [] } = sectionOf(document, "page");
  if (proxyGroupsHeader !== undefined && proxyHeader === undefined)
    return [{ where: "page.proxyHeader", what: "is missing: page.proxyGroupsHeader needs it" }];
  if (proxySecret !== undefined && proxyHeader === undefined)
    return [{ where: "page.proxyHeader", what: "is missing: page.proxySecret needs it" }];
  const some = Array.isArray(proxyAddresses) ? proxyAddresses.length > 0 : proxyAddresses !== "";
  if (proxyHeader !== undefined && !some)
    return [
      {
        where: "page.proxyAddresses",
        what: "is empty, so any client could send page.proxyHeader: set the proxy's addresses",
      },
    ];
  if (proxyHeader === undefined && some)
    return [{ where: "page.proxyHeader", what: "is missing: page.proxyAddresses has no effect without it" }];
  return [];
}

function meet(host: unknown, other: unknown): boolean {
  const all = [undefined, "0.0.0.0", "::"];
  return host === other || all.includes(host as string) || all.includes(other as string);
}

function sectionOf(document: ConfigSection, key: string): ConfigSection {
  const section = document[key];
  return isSection(section) ? section : {};
}

function checkRedis(redis: unknown): Problem[] {
  if (!isSection(redis)) return [];
  const { url, sentinels } = redis;
  if (typeof url === "string" && /^rediss?:/.test(url.trim())) return [];
  const needing = ["password", ...(Array.isArray(sentinels) && sentinels.length > 0 ? ["sentinels"] : [])];
  return needing
    .filter((key) => redis[key] !== undefined)
    .map((key) => ({ where: `redis.${key}`, what: "requires a redis.url that begins with redis:// or rediss://" }));
}
