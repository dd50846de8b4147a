/**
 * The hidden line that identifies our comments. It is signed, because anyone can write a comment, and ours may show text
 * of any author.
 */
import { createHmac, hash, hkdfSync, timingSafeEqual } from "node:crypto";
import { type PullRequestKey, pullRequestText } from "../model.ts";

export interface Marker {
  /** Renders the marker lines for this pull request's comment: the signed one, and the one that names the writer. */
  text(key: PullRequestKey): string;
  /** Whether the body has the marker for this pull request, signed with one of the secrets. */
  isOn(body: string, key: PullRequestKey): boolean;
  /** Whether another server with the same instance name wrote the body last; it should have its own name. */
  isByAnother(body: string, key: PullRequestKey): boolean;
}

export interface MarkerOptions {
  /** The first secret signs, all are accepted, so that secrets can be rotated without losing earlier comments. */
  readonly secrets: readonly string[];
  /** Distinguishes servers that preview the same pull request, each for its own cluster. */
  readonly instance: string;
  /** Distinguishes servers that have the same instance name by mistake; equal for replicas of one server. */
  readonly owner: string;
}

/** The writer is named on a separate line, so that servers of any version recognize the signed line. */
const line = /^<!-- towline:v1:([A-Za-z0-9_-]{43}) -->(?:\r?\n<!-- towline-owner:([A-Za-z0-9_-]{1,43}) -->)?$/gm;

export function createMarker({ secrets, instance, owner }: MarkerOptions): Marker {
  const keys = secrets.map((secret) => Buffer.from(hkdfSync("sha256", secret, "", "towline comment marker", 32)));
  const [first] = keys;
  if (first === undefined) throw new Error("a marker needs a secret to be signed with");

  function sign(key: Buffer, pullRequest: PullRequestKey): Buffer {
    return createHmac("sha256", key)
      .update(`${instance}\n${pullRequestText(pullRequest)}`)
      .digest();
  }

  const ownerId = hash("sha256", `${instance}\n${owner}`, "base64url").slice(0, 12);

  /** The marker lines for this pull request, each with its writer. */
  function find(body: string, pullRequest: PullRequestKey): (string | undefined)[] {
    const expected = keys.map((key) => sign(key, pullRequest));
    return [...body.matchAll(line)].flatMap(([, signature = "", by]) => {
      const given = Buffer.from(signature, "base64url");
      return expected.some((one) => given.length === one.length && timingSafeEqual(given, one)) ? [by] : [];
    });
  }

  return {
    text: (key) => `<!-- towline:v1:${sign(first, key).toString("base64url")} -->\n<!-- towline-owner:${ownerId} -->`,
    isOn: (body, key) => find(body, key).length > 0,
    isByAnother: (body, key) => find(body, key).some((by) => by !== undefined && by !== ownerId),
  };
}
