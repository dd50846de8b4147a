/**
 * Decides which requests of a preview's kluctl are sent to the API server, and in which form: reads, and writes as dry
 * runs. A permitted request is rebuilt from its parsed parts, so that the API server cannot interpret it differently
 * from these rules. Pure.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isPathSegment } from "../kit/path-segment.ts";
import { negotiate } from "./negotiate.ts";
import { Refusal } from "./refusal.ts";

export type Method = "GET" | "POST" | "PUT" | "PATCH" | "DELETE";

export interface Permitted {
  readonly what: "discovery" | "schema" | "list" | "object";
  readonly method: Method;
  /** Includes the query. */
  readonly path: string;
  readonly accept: string;
  /** Of the request body. */
  readonly contentType?: string | undefined;
  /** The response may contain values of a Secret and must be masked. */
  readonly isSecret: boolean;
  /** Of the object; absent if the path names none. */
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
  /** The options in the query of a DELETE, to be moved into the body, which takes precedence. */
  readonly deleteOptions?: Readonly<Record<string, unknown>> | undefined;
}

export interface ApiProxyRequest {
  readonly method: string;
  /** Below the run's own path: from `/api` on. */
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** Throws Refusal. */
export function permit({ method, url, headers }: ApiProxyRequest): Permitted {
  if (!isMethod(method))
    throw new Refusal(405, `a preview cannot send ${/^[A-Z-]{1,20}$/.test(method) ? method : "this"} requests`);
  const mark = url.indexOf("?");
  const segments = readPath(mark === -1 ? url : url.slice(0, mark));
  const query = readQuery(mark === -1 ? "" : url.slice(mark + 1));
  const path = `/${segments.map(encodeSegment).join("/")}`;

  const meta = metaKind(segments);
  if (meta !== undefined) {
    if (method !== "GET") throw new Refusal(403, `a preview can only read ${path}`);
    // Elsewhere, the API server ignores it: every value would be another entry of the cache, with the same schema.
    const kept = pick(query, path.startsWith("/openapi/v3/") ? ["hash"] : [], path);
    return { what: meta, method, path: path + kept, accept: negotiate(headers.accept, meta), isSecret: false };
  }

  const { group, resource, namespace, name } = readResource(segments);
  const isSecret = group === "" && resource === "secrets";
  const what = name === undefined ? "list" : "object";
  const shared = {
    what,
    method,
    accept: negotiate(headers.accept, isSecret ? "secret" : "resource"),
    isSecret,
    namespace,
    name,
  } as const;
  if (method === "GET") return { ...shared, path: path + pick(query, what === "list" ? listing : reading, path) };
  if (reviews.has(group)) throw new Refusal(403, `a preview cannot access ${resource}.${group}`);
  if ((name === undefined) !== (method === "POST")) {
    const whole = method === "POST" ? "create an object at the path of another" : `${method} all ${resource} at once`;
    throw new Refusal(403, `a preview cannot ${whole}`);
  }
  const dryRun = query.get("dryRun");
  if (dryRun !== undefined && dryRun !== "All") throw new Refusal(400, "dryRun must be All");
  if (method === "DELETE") {
    pick(query, ["dryRun", ...deleting], path);
    return { ...shared, path: `${path}?dryRun=All`, deleteOptions: readDeleteQuery(query) };
  }
  const kept = pick(new Map([...query, ["dryRun", "All"]]), method === "PATCH" ? patching : writing, path);
  return { ...shared, path: path + kept, contentType: readContentType(method, headers["content-type"]) };
}

const methods: readonly string[] = ["GET", "POST", "PUT", "PATCH", "DELETE"] satisfies Method[];

function isMethod(method: string): method is Method {
  return methods.includes(method);
}

/** Groups for checking logins and permissions, which a diff does not need. */
const reviews = new Set(["authentication.k8s.io", "authorization.k8s.io"]);
/**
 * Old-style path segments that change the meaning of the rest of the path, and a resource that binds pods without
 * naming one in the path.
 */
const special = new Set(["watch", "proxy", "bindings"]);

const listing = ["labelSelector", "fieldSelector", "limit", "continue", "resourceVersion", "resourceVersionMatch"];
const reading = ["resourceVersion"];
const writing = ["dryRun", "fieldManager", "fieldValidation"];
const patching = [...writing, "force"];
const deleting = ["propagationPolicy", "gracePeriodSeconds"];
/** Only for the client's convenience; not passed to the API server. */
const dropped = new Set(["pretty", "timeout", "timeoutSeconds"]);

/** JSON patches are not allowed: one could copy a Secret's value to a field that is not masked. */
const patchTypes = [
  "application/apply-patch+yaml",
  "application/merge-patch+json",
  "application/strategic-merge-patch+json",
];

/** Decodes the path's segments. Characters with a meaning in paths are rejected in any encoding. */
function readPath(path: string): string[] {
  if (!path.startsWith("/") || path.length > 2_000) throw new Refusal(400, "not a path of the Kubernetes API");
  return path
    .slice(1)
    .split("/")
    .map((raw) => {
      const segment = decode(raw);
      if (!isPathSegment(segment)) throw new Refusal(400, "not a path of the Kubernetes API");
      return segment;
    });
}

function encodeSegment(segment: string): string {
  return encodeURIComponent(segment).replaceAll("%3A", ":").replaceAll("%40", "@");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Refusal(400, "the request's address is not encoded correctly");
  }
}

function readQuery(text: string): Map<string, string> {
  const query = new Map<string, string>();
  if (text.length > 8_000 || text.includes(";"))
    throw new Refusal(400, "the request's query is not valid for Kubernetes");
  for (const part of text.split("&")) {
    if (part === "") continue;
    const at = part.indexOf("=");
    const spaced = part.replaceAll("+", " ");
    const name = decode(at === -1 ? spaced : spaced.slice(0, at));
    if (query.has(name)) throw new Refusal(400, "the request's query has a parameter twice");
    query.set(name, at === -1 ? "" : decode(spaced.slice(at + 1)));
  }
  return query;
}

/** Returns a query with the allowed parameters; throws Refusal for others. */
function pick(query: ReadonlyMap<string, string>, allowed: readonly string[], path: string): string {
  const kept: [string, string][] = [];
  for (const [name, value] of query) {
    if (dropped.has(name)) continue;
    if (!allowed.includes(name)) {
      const shown = /^\w{1,40}$/.test(name) ? name : "this";
      throw new Refusal(400, `a preview cannot request ${path} with the parameter ${shown}`);
    }
    kept.push([name, value]);
  }
  return kept.length === 0 ? "" : `?${new URLSearchParams(kept)}`;
}

const groupName = /^[a-z0-9][-a-z0-9.]{0,252}$/;
const resourceName = /^[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?$/;

function metaKind(segments: readonly string[]): "discovery" | "schema" | undefined {
  const [root, ...rest] = segments;
  const known = rest.every((part) => groupName.test(part));
  if (root === "version") return rest.length === 0 ? "discovery" : undefined;
  if (root === "api") return rest.length <= 1 && known ? "discovery" : undefined;
  if (root === "apis") return rest.length <= 2 && known ? "discovery" : undefined;
  if (root === "openapi") {
    const isDocument = rest[0] === "v2" ? rest.length === 1 : rest[0] === "v3" && rest.length <= 4;
    return isDocument && known ? "schema" : undefined;
  }
  return undefined;
}

interface Resource {
  readonly group: string;
  readonly resource: string;
  readonly namespace?: string | undefined;
  readonly name?: string | undefined;
}

function readResource([root, ...parts]: readonly string[]): Resource {
  const group = root === "api" ? "" : root === "apis" ? (parts.shift() ?? "") : undefined;
  const version = parts.shift();
  if (
    group === undefined ||
    version === undefined ||
    (group !== "" && !groupName.test(group)) ||
    !groupName.test(version)
  ) {
    throw new Refusal(403, "a preview can only access objects of the Kubernetes API");
  }
  const inNamespace = parts[0] === "namespaces" && parts.length > 2;
  const [resource = "", name, subresource] = inNamespace ? parts.slice(2) : parts;
  // After a namespace, the API server takes these two for subresources of the namespace itself.
  const ofNamespace = inNamespace && (resource === "status" || resource === "finalize");
  if (subresource !== undefined || ofNamespace) {
    const shown = ofNamespace ? `namespaces/${resource}` : `${resource}/${subresource}`;
    throw new Refusal(403, `a preview cannot access ${/^[a-z/]{1,80}$/.test(shown) ? shown : "a subresource"}`);
  }
  if (special.has(resource) || !resourceName.test(resource)) throw new Refusal(403, "a preview cannot access this");
  return { group, resource, namespace: inNamespace ? parts[1] : undefined, name };
}

function readContentType(method: Method, header: string | undefined): string {
  const type = header?.split(";", 1)[0]?.trim().toLowerCase() ?? "application/json";
  const allowed = method === "PATCH" ? patchTypes : ["application/json"];
  if (!allowed.includes(type))
    throw new Refusal(415, `a preview cannot send this as ${method}: use ${allowed.join(" or ")}`);
  return type;
}

function readDeleteQuery(query: ReadonlyMap<string, string>): Record<string, unknown> {
  const seconds = query.get("gracePeriodSeconds");
  if (seconds !== undefined && !/^\d{1,9}$/.test(seconds)) throw new Refusal(400, "gracePeriodSeconds is not a number");
  const policy = query.get("propagationPolicy");
  return {
    ...(policy !== undefined && { propagationPolicy: policy }),
    ...(seconds !== undefined && { gracePeriodSeconds: Number(seconds) }),
  };
}
