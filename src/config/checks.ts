/**
 * What one key means for another. On the document as it was written, not on what the schema made of it: so these
 * problems are told together with the schema's, not after those are mended.
 */
import { isSection, type Section } from "./merge.ts";
import { pathText, type Problem } from "./problems.ts";
import { shortestWebhookSecret } from "./schema.ts";

export function checkDocument(document: Section): Problem[] {
  return [...checkForges(document["forges"]), ...checkPorts(document), ...checkRedis(document["redis"])];
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

function checkPorts(document: Section): Problem[] {
  const port = (section: unknown, otherwise: number) => (isSection(section) && section["port"]) || otherwise;
  const webhooks = isSection(document["webhooks"]) ? document["webhooks"]["port"] : undefined;
  if (webhooks === 0 || port(document["webhooks"], 8080) !== port(document["admin"], 9090)) return [];
  return [{ where: "admin.port", what: "is also webhooks.port: health and metrics need a port of their own" }];
}

function checkRedis(redis: unknown): Problem[] {
  if (!isSection(redis) || redis["password"] === undefined) return [];
  const url = redis["url"];
  if (typeof url === "string" && /^rediss?:/.test(url.trim())) return [];
  return [{ where: "redis.password", what: "needs a redis.url that begins with redis:// or rediss://" }];
}
