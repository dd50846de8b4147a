/** Computes the keys under which results are stored, like kluctl's own controller. Pure. */
import type { GitSource, OciSource, ProjectKey } from "../model.ts";

const scpForm = /^([^@/\s]+@)?([^:/\s]+):(?!\/\/)(.*)$/;

/**
 * `git://host[:port]/path` (or `oci://…`) and the sub-directory, without the login (whose password may contain an `@`).
 * Letter case and port are kept as written: the web UI and `kluctl gitops` compare this key literally with what
 * kluctl's controller would have written.
 */
export function projectKey({ kind, url, path }: GitSource | OciSource): ProjectKey {
  const scp = /^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? null : scpForm.exec(url);
  const [, host, repo] = scp
    ? ["", scp[2] ?? "", scp[3] ?? ""]
    : (/^[a-z][a-z0-9+.-]*:\/\/(?:[^/]*@)?([^/]*)\/?(.*)$/i.exec(url) ?? ["", "", ""]);
  // In the same order as kluctl's controller: `repo.git/` keeps its suffix, and `repo/.git` becomes `repo`.
  const name = kind === "git" ? repo.replace(/\.git$/, "") : repo;
  const trimmed = name.replace(/^\/|\/$/g, "");
  const repoKey = `${kind}://${host}/${trimmed}`;
  return path === "" ? { repoKey } : { repoKey, subDir: path };
}

/** The `target` that kluctl reports in a result document: its name and discriminator, after overrides. */
export function targetOf(document: Readonly<Record<string, unknown>>): {
  name?: string;
  discriminator?: string;
  clusterId?: string;
} {
  const key = asRecord(document["targetKey"]);
  const target = asRecord(document["target"]);
  const name = text(target["name"]) ?? text(key["targetName"]);
  const discriminator = text(target["discriminator"]) ?? text(key["discriminator"]);
  const clusterId = text(key["clusterId"]);
  return { ...(name && { name }), ...(discriminator && { discriminator }), ...(clusterId && { clusterId }) };
}

function asRecord(value: unknown): Record<string, unknown> {
  return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}
