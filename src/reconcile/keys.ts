/** Under which keys results are filed, as kluctl's own controller computes them. Pure. */
import type { GitSource, OciSource, ProjectKey } from "../model.ts";

const scpForm = /^([^@/\s]+@)?([^:/\s]+):(?!\/\/)(.*)$/;

/**
 * `git://host[:port]/path` (or `oci://…`) and the sub-directory, without the login (whose password may hold an `@`). Letter case and
 * port are kept as written: the web UI and `kluctl gitops` compare this key literally with what upstream's controller
 * would have written.
 */
export function projectKey({ kind, url, path }: GitSource | OciSource): ProjectKey {
  const scp = /^[a-z][a-z0-9+.-]*:\/\//i.test(url) ? null : scpForm.exec(url);
  const [, host, repo] = scp
    ? ["", scp[2] ?? "", scp[3] ?? ""]
    : (/^[a-z][a-z0-9+.-]*:\/\/(?:[^/]*@)?([^/]*)\/?(.*)$/i.exec(url) ?? ["", "", ""]);
  // In upstream's order: `repo.git/` keeps its ending, and `repo/.git` is `repo`.
  const name = kind === "git" ? repo.replace(/\.git$/, "") : repo;
  const trimmed = name.replace(/^\/|\/$/g, "");
  const repoKey = `${kind}://${host}/${trimmed}`;
  return path === "" ? { repoKey } : { repoKey, subDir: path };
}

/** `target` as kluctl reports it in a result document: its name and discriminator, after overrides. */
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
