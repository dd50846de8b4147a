/** Converts the kubeconfig of another cluster, from a deployment's Secret, to the one that kluctl gets. */
import { createHash } from "node:crypto";
import { parse, stringify } from "yaml";
import { z } from "zod";
import { ForbiddenAddressError, type Lookup, resolveAllowed, systemLookup } from "../kit/address.ts";
import type { RemoteCluster } from "../model.ts";

export interface RemoteClusterOptions {
  readonly impersonate?: string | undefined;
  /** Whether the kubeconfig may name programs to run and files to read, both of which are the server's. */
  readonly allowUnsafe: boolean;
  readonly lookup?: Lookup | undefined;
}

const fields = z.record(z.string(), z.unknown());
const named = <Key extends "context" | "cluster" | "user">(key: Key) =>
  z.array(z.object({ name: z.string(), [key]: fields.nullish() })).nullish();

const Kubeconfig = z.object({
  "current-context": z.string().nullish(),
  contexts: named("context"),
  clusters: named("cluster"),
  users: named("user"),
});

const clusterFields = [
  "server",
  "certificate-authority-data",
  "insecure-skip-tls-verify",
  "tls-server-name",
  "proxy-url",
  "disable-compression",
];
const loginFields = ["token", "client-certificate-data", "client-key-data", "username", "password"];
const impersonationFields = ["as", "as-uid", "as-groups", "as-user-extra"];

/** Field → the field to use instead. */
const files: Readonly<Record<string, string>> = {
  "certificate-authority": "certificate-authority-data",
  "client-certificate": "client-certificate-data",
  "client-key": "client-key-data",
  tokenFile: "token",
};
const programs = ["exec", "auth-provider"];

/** Throws an error that says what is wrong; it quotes nothing of the kubeconfig but names of fields and its server. */
export async function toRemoteCluster(
  text: string,
  { impersonate, allowUnsafe, lookup = systemLookup }: RemoteClusterOptions,
): Promise<RemoteCluster> {
  const { cluster, user } = findCurrent(readKubeconfig(text));
  if (!allowUnsafe) refuseUnsafe(cluster, user);
  const server = pick(cluster, [...clusterFields, ...(allowUnsafe ? Object.keys(files) : [])]);
  const login = pick(user, [...loginFields, ...(allowUnsafe ? [...Object.keys(files), ...programs] : [])]);
  for (const field of ["server", "proxy-url"]) await refuseForbidden(field, cluster[field], lookup);
  // An empty name would disable impersonation.
  if (impersonate?.trim() === "") throw new Error("the user to impersonate has no name");
  const as = impersonate === undefined ? pick(user, impersonationFields) : { as: impersonate };
  const kubeconfig = stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "default",
    contexts: [{ name: "default", context: { cluster: "default", user: "default" } }],
    clusters: [{ name: "default", cluster: server }],
    users: [{ name: "default", user: { ...login, ...as } }],
  });
  return { kubeconfig, fingerprint: createHash("sha256").update(JSON.stringify(server)).digest("hex") };
}

function readKubeconfig(text: string): z.output<typeof Kubeconfig> {
  let document: unknown;
  try {
    document = parse(text);
  } catch {
    throw new Error("it is not YAML"); // the parser's message quotes the kubeconfig
  }
  const { data } = Kubeconfig.safeParse(document);
  if (data === undefined)
    throw new Error("it is not a kubeconfig: contexts, clusters and users must be lists of names");
  return data;
}

function findCurrent(config: z.output<typeof Kubeconfig>) {
  const current = config["current-context"];
  if (!current) throw new Error("it has no current-context, and no other context is used");
  const context = config.contexts?.find(({ name }) => name === current)?.context as Fields | null | undefined;
  if (!context) throw new Error("its current-context is not one of its contexts");
  const cluster = config.clusters?.find(({ name }) => name === context["cluster"])?.cluster as
    Fields | null | undefined;
  if (typeof cluster?.["server"] !== "string" || cluster["server"] === "") {
    throw new Error("its current context has no cluster with a server");
  }
  const user = config.users?.find(({ name }) => name === context["user"])?.user as Fields | null | undefined;
  if (context["user"] && !user) throw new Error("the user of its current context is not one of its users");
  return { cluster, user: user ?? {} };
}

type Fields = Readonly<Record<string, unknown>>;

function refuseUnsafe(cluster: Fields, user: Fields): void {
  const setting = "or have the server's kubernetes.allowUnsafeKubeconfigs set";
  for (const part of [cluster, user]) {
    const file = Object.keys(files).find((name) => isThere(part[name]));
    if (file !== undefined) {
      throw new Error(`its ${file} references a file on the server: use ${files[file]} instead, ${setting}`);
    }
  }
  const program = programs.find((name) => isThere(user[name]));
  if (program !== undefined) {
    throw new Error(
      `its ${program} would run on the server to log in: use a token or a client certificate instead, ${setting}`,
    );
  }
}

/** A name that cannot be resolved here may still be known to a proxy. */
async function refuseForbidden(field: string, url: unknown, lookup: Lookup): Promise<void> {
  if (typeof url !== "string" || url === "") return;
  // Parsed as client-go and kluctl do: without a scheme it is a host.
  const parsed = URL.parse(url.includes("://") ? url : `http://${url}`);
  if (parsed === null) throw new Error(`its ${field} is not a URL`);
  const { hostname } = new URL(parsed.href.replace(/^[a-z0-9+.-]+:/i, "http:"));
  try {
    await resolveAllowed(hostname, lookup);
  } catch (error) {
    if (error instanceof ForbiddenAddressError) throw new Error(`its ${field} is rejected: ${error.message}`);
  }
}

function pick(part: Fields, names: readonly string[]): Record<string, unknown> {
  return Object.fromEntries(names.filter((name) => isThere(part[name])).map((name) => [name, part[name]]));
}

function isThere(value: unknown): boolean {
  return value !== undefined && value !== null && value !== "" && value !== false;
}
