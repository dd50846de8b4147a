/** Reads the source of a project from a KluctlDeployment. Pure. */
import path from "node:path";
import type { GitRef, GitSource, OciSource } from "../../model.ts";
import { isDigest, isTag, parseOciUrl } from "../../model/oci-url.ts";
import { repoId } from "../../model/repo-url.ts";
import { quote } from "../../kit/quote.ts";
import type { RawSpec } from "./spec-schema.ts";

type RawSource = RawSpec["source"];

/**
 * Adds what is wrong to `problems`. If several sources are given the first one counts, as in kluctl. URLs are never
 * quoted: they may contain a password.
 */
export function toSource({ git, oci, ...inline }: RawSource, problems: string[]): GitSource | OciSource | undefined {
  if (git) return toGitSource(git, "spec.source.git", problems);
  if (oci) return toOciSource(oci, problems);
  const { url, ref, path: directory } = inline;
  if (url) return toGitSource({ url, ref, path: directory }, "spec.source", problems);
  problems.push("missing source spec; set spec.source.git or spec.source.oci with a url");
  return undefined;
}

function toGitSource(raw: NonNullable<RawSource["git"]>, at: string, problems: string[]): GitSource {
  const ref = toRef(raw.ref, at, problems);
  const directory = toDirectory(raw.path, at, problems);
  if (repoId(raw.url) === undefined) {
    const examples = "https://host/org/repo.git or ssh://git@host/org/repo.git";
    problems.push(`${at}.url: is not the URL of a git repository; use e.g. ${examples}`);
  }
  return { kind: "git", url: raw.url, ref, path: directory };
}

function toOciSource(raw: NonNullable<RawSource["oci"]>, problems: string[]): OciSource {
  const at = "spec.source.oci";
  const { tag, digest } = raw.ref ?? {};
  if (parseOciUrl(raw.url) === undefined) {
    problems.push(
      `${at}.url: is not the URL of an OCI artifact; use e.g. oci://registry/org/project, and set tag or digest in ref`,
    );
  }
  if (tag && !isTag(tag)) problems.push(`${at}.ref.tag: ${quote(tag)} is not a tag, e.g. v1.2`);
  if (digest && !isDigest(digest)) {
    problems.push(`${at}.ref.digest: ${quote(digest)} is not a digest; use sha256: and 64 hexadecimal digits`);
  }
  const ref = { ...(tag && { tag }), ...(digest && { digest }) };
  return { kind: "oci", url: raw.url, ref, path: toDirectory(raw.path, at, problems) };
}

function toRef(raw: RawSource["ref"], at: string, problems: string[]): GitRef {
  const given = (["branch", "tag", "commit"] as const).filter((kind) => raw?.[kind]);
  const [kind, ...more] = given;
  if (kind === undefined) return {};
  if (more.length > 0) problems.push(`${at}.ref: has ${given.join(" and ")}; keep one of them`);
  const name = raw?.[kind] ?? "";
  if (kind === "commit" ? !/^[0-9a-f]{40}([0-9a-f]{24})?$/i.test(name) : !isRefName(name)) {
    const wanted =
      kind === "commit"
        ? "the full 40 digits of a commit"
        : `the short name of a ${kind}, e.g. ${kind === "tag" ? "v1.2" : "main"}`;
    problems.push(`${at}.ref.${kind}: ${quote(name)} is not ${wanted}`);
  }
  return { [kind]: kind === "commit" ? name.toLowerCase() : name };
}

/** What `git check-ref-format` accepts, without a leading dash, which git would take for an option. */
function isRefName(name: string): boolean {
  if (/[\u0000-\u0020\u007f~^:?*[\\]|\.\.|@\{|\/\/|\.$|\/$|^[-/]/.test(name) || name === "@") return false;
  return name.split("/").every((part) => !part.startsWith(".") && !part.endsWith(".lock"));
}

function toDirectory(raw: string | undefined, at: string, problems: string[]): string {
  const directory = path.posix.normalize(`/${raw ?? ""}`).replace(/^\/+|\/+$/g, "");
  const climbs = (raw ?? "").split("/").includes("..");
  if (climbs || /[\u0000-\u001f\u007f\\]/.test(raw ?? "")) {
    problems.push(
      `${at}.path: ${quote(raw)} is not a directory inside the repository; use a path without .., e.g. clusters/prod`,
    );
  }
  return directory;
}
