/** Why webhooks of a repository do not arrive, from what its git host shows. Pure. */
import type { DeliveryAttempt, FoundWebhooks, HostWebhook, MissReason } from "../model.ts";

/** A webhook, and its attempts; absent: the host does not list them. */
export interface ReadWebhook {
  readonly hook: Pick<HostWebhook, "host" | "isEnabled" | "sendsPushes" | "repository">;
  /** Newest first. */
  readonly attempts?: readonly DeliveryAttempt[] | undefined;
}

/**
 * The first kind explains best. A webhook that delivers elsewhere may belong to another server, and says nothing about
 * the one that is missing.
 */
const mostTelling: readonly MissReason["kind"][] = [
  "refused",
  "disabled",
  "events",
  "unlisted",
  "unsent",
  "elsewhere",
  "address",
  "missing",
];

/** `received`: the ids of the deliveries that arrived. */
export function findMissReason(
  webhooks: readonly ReadWebhook[],
  similar: FoundWebhooks["similar"],
  received: ReadonlySet<string>,
): MissReason {
  const [host] = similar;
  const reasons = webhooks.map((webhook) => reasonOf(webhook, received));
  if (reasons.length === 0) return host === undefined ? { kind: "missing" } : { kind: "address", host };
  const rank = ({ kind }: MissReason) => mostTelling.indexOf(kind);
  return reasons.reduce((best, one) => (rank(one) < rank(best) ? one : best));
}

function reasonOf({ hook, attempts }: ReadWebhook, received: ReadonlySet<string>): MissReason {
  const { host, isEnabled, sendsPushes } = hook;
  if (!isEnabled) return { kind: "disabled", host };
  if (!sendsPushes) return { kind: "events", host };
  if (attempts === undefined) return { kind: "unlisted", host };
  const pushes = attempts.filter((one) => one.isPush && isAbout(one, hook));
  // What was tried before the last delivery that arrived explains nothing about those that are missing since.
  const arrived = pushes.findIndex((one) => received.has(one.delivery));
  const since = arrived === -1 ? pushes : pushes.slice(0, arrived);
  const byDelivery = [...Map.groupBy(since, ({ delivery }) => delivery).values()];
  const failed = byDelivery.filter((all) => !all.some(({ ok }) => ok));
  const [last] = failed[0] ?? [];
  if (last !== undefined) return { kind: "refused", host, code: last.code, count: failed.length };
  return { kind: byDelivery.length > 0 ? "elsewhere" : "unsent", host };
}

/** A webhook of several repositories lists the deliveries of all of them. */
function isAbout({ repository }: DeliveryAttempt, hook: ReadWebhook["hook"]): boolean {
  return hook.repository === undefined || repository === undefined || repository === hook.repository;
}

/** What is wrong and what to do about it, as text for users. */
export function describeMissReason(
  reason: MissReason,
  forge: string,
): { readonly why: string; readonly advice: string } {
  const { kind, host = "the server", code, count = 1, detail = "" } = reason;
  const ensure = "towline webhook ensure";
  switch (kind) {
    case "missing":
      return {
        why: `no webhook of the repository sends to an address that ends in /webhooks/${forge}`,
        advice: `${ensure} creates one; if an organization's or group's webhook should report it, check that one`,
      };
    case "address":
      return {
        why: `its webhook at ${host} has another path than /webhooks/${forge}`,
        advice: `correct the address at the git host, or create a webhook with ${ensure}`,
      };
    case "disabled":
      return {
        why: `the git host has disabled the webhook to ${host}`,
        advice: `remove the cause of its failed deliveries; ${ensure} then enables it`,
      };
    case "events":
      return { why: `the webhook to ${host} does not send pushes`, advice: `${ensure} adds the events` };
    case "refused": {
      const deliveries = count === 1 ? "1 delivery" : `${count} deliveries`;
      const response = code === undefined ? "no response" : `response ${code}`;
      return { why: `${deliveries} to ${host} failed, the last one with ${response}`, advice: adviceFor(host, code) };
    }
    case "unsent":
      return {
        why: `the webhook to ${host} is complete, but the git host has not sent these pushes`,
        advice:
          "no git host sends a push of many branches or tags at once; otherwise check the status page of the git host",
      };
    case "elsewhere":
      return {
        why: `the git host has delivered to ${host}, but nothing has arrived here`,
        advice: `check where ${host} leads: it may be another server`,
      };
    case "unlisted":
      return {
        why: `the webhook to ${host} is complete; the API of the git host does not list its deliveries`,
        advice: "look at the recent deliveries on the webhook's page at the git host",
      };
    case "unreadable":
      return {
        why: `the webhooks cannot be read: ${detail}`,
        advice: "with a login that may read webhooks, the server finds the reason by itself",
      };
  }
}

function adviceFor(host: string, code: number | undefined): string {
  if (code === undefined) return `check that the git host can reach ${host}: DNS, firewall, certificate`;
  if (code === 401) return "the secrets differ: towline webhook ensure --rotate sets the webhook's";
  if (code === 404 || code === 405) return `check that ${host} leads to the server's webhook port: Ingress, path`;
  if (code === 413) return "raise webhooks.maxBody, and the limit of the proxy in front of the server";
  if (code >= 500) return "check the server and Redis, and the proxy in front of them";
  return "check the proxy in front of the server";
}
