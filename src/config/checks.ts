/**
 * What one key means for another. On the document as it was written, not on what the schema made of it: so these
 * problems are told together with the schema's, not after those are mended.
 */
import { parseBindAddress } from "./bind-address.ts";
import { isSection, type Section } from "./merge.ts";
import { pathText, type Problem } from "./problems.ts";
import { shortestWebhookSecret } from "./schema.ts";

export function checkDocument(document: Section): Problem[] {
  return [
    ...checkForges(document["forges"]),
    ...checkPorts(document),
    ...checkRedis(document["redis"]),
    ...checkUi(document),
    ...checkPreview(sectionOf(document, "preview")),
  ];
}

function checkForges(forges: unknown): Problem[] {
  if (!Array.isArray(forges)) return [];
  const problems: Problem[] = [];
  const ids = new Set<unknown>();
  for (const [index, forge] of forges.entries()) {
    if (!isSection(forge)) continue;
    const { id, kind, webhookSecrets, insecureAllowUnsigned } = forge;
    if (typeof id === "string" && ids.has(id)) {
      problems.push({ where: pathText(["forges", index, "id"]), what: `"${id}" is already the id of another forge` });
    }
    ids.add(id);
    if (forge["webUrl"] !== undefined && forge["apiUrl"] === undefined) {
      problems.push({
        where: pathText(["forges", index, "webUrl"]),
        what: "is set, and apiUrl is not: set both, or neither",
      });
    }
    problems.push(...checkLogin(forge).map(([key, what]) => ({ where: pathText(["forges", index, key]), what })));
    const unsigned = webhookSecrets === undefined || (Array.isArray(webhookSecrets) && webhookSecrets.length === 0);
    if (!unsigned || insecureAllowUnsigned === true) continue;
    const variable =
      typeof id === "string" && id === kind ? `set TOWLINE_${id.toUpperCase()}_WEBHOOK_SECRET` : "set it";
    problems.push({
      where: pathText(["forges", index, "webhookSecrets"]),
      what: `is empty: ${variable} or a file, ${shortestWebhookSecret} characters or more`,
    });
  }
  return problems;
}

/** As `[key, what is wrong]`. */
function checkLogin({ kind, apiUrl, token, appId, appPrivateKey }: Section): [string, string][] {
  if (kind === "gitea" && token !== undefined && apiUrl === undefined) {
    return [["apiUrl", "is missing: a token of a Gitea needs the address of its API"]];
  }
  if (appId === undefined && appPrivateKey === undefined) return [];
  if (kind !== "github") return [["appId", "is for a forge of kind github: use a token here"]];
  if (token !== undefined) return [["appId", "and a token are both set: remove one"]];
  if (appId === undefined) return [["appId", "is missing: the private key belongs to an App, which has an id"]];
  if (appPrivateKey === undefined) return [["appPrivateKey", "is missing: set it, or appPrivateKeyFile"]];
  return [];
}

/** The addresses that are listened on, as far as they are readable; 0 takes a port that nobody has. */
function checkPorts(document: Section): Problem[] {
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
  const ui = sectionOf(document, "ui");
  if (hasAccess(ui)) addresses.push(["ui.port", "the page and its API", ui["host"], ui["port"] ?? 8090]);
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
    return other ? [{ where, what: `is also ${other[0]}: ${purpose} need a port of their own` }] : [];
  });
}

function hasAccess(ui: Section): boolean {
  return ui["token"] !== undefined || ui["proxyHeader"] !== undefined || sectionOf(ui, "oidc")["issuer"] !== undefined;
}

function checkUi(document: Section): Problem[] {
  return [...checkProxy(document), ...checkOidc(sectionOf(document, "ui"))];
}

const neededForOidc = ["issuer", "clientId", "clientSecret", "redirectUrl"];

function checkOidc(ui: Section): Problem[] {
  const oidc = sectionOf(ui, "oidc");
  const missing = neededForOidc.filter((key) => oidc[key] === undefined);
  if (missing.length === neededForOidc.length) return [];
  const problems = missing.map((key) => ({
    where: `ui.oidc.${key}`,
    what: "is missing: logging in takes issuer, clientId, clientSecret (or clientSecretFile) and redirectUrl",
  }));
  const isEmpty = (list: unknown) => list === undefined || list === "" || (Array.isArray(list) && list.length === 0);
  if (isEmpty(ui["viewerGroups"]) && isEmpty(ui["operatorGroups"]))
    problems.push({
      where: "ui.viewerGroups",
      what: 'and ui.operatorGroups are empty: name groups, or "*" for everybody who can log in at the provider',
    });
  return problems;
}

function checkPreview({ forks, isolation }: Section): Problem[] {
  if (forks !== "isolated" || isolation !== "off") return [];
  return [{ where: "preview.forks", what: "is isolated, and preview.isolation is off: set that to required or auto" }];
}

function checkProxy(document: Section): Problem[] {
  const { proxyHeader, proxyGroupsHeader, proxySecret, proxyAddresses = [] } = sectionOf(document, "ui");
  if (proxyGroupsHeader !== undefined && proxyHeader === undefined)
    return [{ where: "ui.proxyHeader", what: "is missing: ui.proxyGroupsHeader says the groups of whom it names" }];
  if (proxySecret !== undefined && proxyHeader === undefined)
    return [{ where: "ui.proxyHeader", what: "is missing: ui.proxySecret is what its proxy sends along" }];
  const some = Array.isArray(proxyAddresses) ? proxyAddresses.length > 0 : proxyAddresses !== "";
  if (proxyHeader !== undefined && !some)
    return [{ where: "ui.proxyAddresses", what: "is empty: anybody could send ui.proxyHeader; name the proxy's" }];
  if (proxyHeader === undefined && some)
    return [{ where: "ui.proxyHeader", what: "is missing: ui.proxyAddresses says whose header is believed" }];
  return [];
}

function meet(host: unknown, other: unknown): boolean {
  const all = [undefined, "0.0.0.0", "::"];
  return host === other || all.includes(host as string) || all.includes(other as string);
}

function sectionOf(document: Section, key: string): Section {
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
    .map((key) => ({ where: `redis.${key}`, what: "needs a redis.url that begins with redis:// or rediss://" }));
}
