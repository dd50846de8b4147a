/**
 * Signed links from a comment to the page of its pull request. A link opens one pull request, read-only, until it
 * expires. Pure.
 */
import { createHmac, hkdfSync, timingSafeEqual } from "node:crypto";
import { type PullRequestKey, pullRequestText } from "../model.ts";
import type { Report } from "../model/report.ts";

export interface PageLinks {
  /** Returns the signature with its expiry, for the link's address. `until`: epoch milliseconds, rounded up to a day. */
  sign(key: PullRequestKey, until: number): string;
  /** Compares in constant time. Only a link that was once valid can have expired. */
  check(key: PullRequestKey, text: string, now: number): LinkState;
}

/** `until`: epoch milliseconds. */
export type LinkState =
  | { readonly state: "valid" | "expired"; readonly until: number }
  | { readonly state: "invalid"; readonly until?: never };

const dayMs = 24 * 3_600_000;
/** As long as the stored result of the preview: see src/redis/reports.ts. */
const validMs = 30 * dayMs;

/** `secret`: replicas that share it accept each other's links; another secret ends all of them. */
export function createPageLinks(secret: string): PageLinks {
  const key = Buffer.from(hkdfSync("sha256", secret, "", "towline pull request links", 32));

  // Git hosts ignore the letter case of repository names.
  const macOf = (pullRequest: PullRequestKey, day: string) =>
    createHmac("sha256", key)
      .update(`${day}\n${pullRequestText(pullRequest).toLowerCase()}`)
      .digest();

  return {
    sign(pullRequest, until) {
      const day = String(Math.ceil(until / dayMs));
      return `${day}.${macOf(pullRequest, day).toString("base64url")}`;
    },
    check(pullRequest, text, now) {
      const [, day = "", mac = ""] = /^(\d{1,6})\.([A-Za-z0-9_-]{43})$/.exec(text) ?? [];
      if (!timingSafeEqual(macOf(pullRequest, day), bytesOf(mac))) return { state: "invalid" };
      const until = Number(day) * dayMs;
      return { state: now < until ? "valid" : "expired", until };
    },
  };
}

/** A text that is no signature becomes one that never matches. */
function bytesOf(mac: string): Buffer {
  const bytes = Buffer.from(mac, "base64url");
  return bytes.length === 32 ? bytes : Buffer.alloc(32);
}

/**
 * When the link in a comment expires. It follows from the report alone, so that a comment is not written again because
 * of its link; every new comparison extends it.
 */
export function linkExpiry({ finishedAt, startedAt }: Pick<Report, "finishedAt" | "startedAt">): number {
  return (finishedAt ?? startedAt) + validMs;
}

/**
 * The address of a pull request's page. The signature is part of the fragment, which browsers send to no server, neither
 * in requests nor as a referrer.
 */
export function pullRequestAddress(publicUrl: string, { forge, repoName, number }: PullRequestKey, signature: string) {
  const place = [forge, ...repoName.split("/"), String(number)].map(encoded).join("/");
  return `${publicUrl}/#/pull-requests/${place}?link=${signature}`;
}

/** The address of the page's view of a commit, for users of the page: what it shows depends on who they are. */
export function commitAddress(publicUrl: string, commit: string): string {
  return `${publicUrl}/#/commit/${encoded(commit)}`;
}

/** Also what Markdown or HTML could interpret. */
function encoded(part: string): string {
  return encodeURIComponent(part).replace(/[!'()*~]/g, (character) => `%${character.charCodeAt(0).toString(16)}`);
}
