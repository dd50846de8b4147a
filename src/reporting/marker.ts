/**
 * The hidden line by which a comment of ours is found again. Signed, because everybody may write a comment, and what is
 * shown in ours may be anybody's text.
 */
import { createHmac, hash, hkdfSync, timingSafeEqual } from "node:crypto";
import { type PullRequestKey, pullRequestText } from "../model.ts";

export interface Marker {
  /** The lines for this pull request's comment: the signed one, and who wrote it. */
  text(key: PullRequestKey): string;
  /** Whether the body carries the line for this very pull request, made by somebody who knows one of the secrets. */
  isOn(body: string, key: PullRequestKey): boolean;
  /** Whether another server wrote the body last: one of the same instance, that should have a name of its own. */
  isByAnother(body: string, key: PullRequestKey): boolean;
}

export interface MarkerOptions {
  /** The first signs, all are accepted, so that they can be replaced without losing the comments from before. */
  readonly secrets: readonly string[];
  /** Tells servers apart that preview the same pull request, each for its own cluster. */
  readonly instance: string;
  /** Tells servers apart that are the same instance by mistake; equal for replicas of one. */
  readonly owner: string;
}

/** Who wrote it stands on a line of its own, so that servers of any version know the signed one. */
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

  /** The lines for this pull request: of each, who wrote it. */
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
