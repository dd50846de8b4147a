import { expect, test } from "vitest";
import { permit, type Permitted } from "../../../src/api-proxy/permit.ts";
import { Refusal } from "../../../src/api-proxy/refusal.ts";

const asks = (method: string, url: string, headers: Record<string, string> = {}) => permit({ method, url, headers });

function refusalOf(method: string, url: string, headers: Record<string, string> = {}): number | Permitted {
  try {
    return asks(method, url, headers);
  } catch (error) {
    if (error instanceof Refusal) return error.status;
    throw error;
  }
}

const apply = { "content-type": "application/apply-patch+yaml" };
const settings = "/api/v1/namespaces/shop/configmaps/settings";

test("a schema has one address, whatever parameters the API server would ignore", () => {
  for (const url of ["/openapi/v2?hash=1", "/openapi/v3?hash=1", "/api/v1?hash=1"])
    expect(refusalOf("GET", url)).toBe(400);
});

test("the requests that a diff needs are allowed", () => {
  for (const [method, url, headers] of [
    ["GET", "/version", {}],
    ["GET", "/api", {}],
    ["GET", "/apis", {}],
    ["GET", "/api/v1", {}],
    ["GET", "/apis/apps/v1?timeout=32s", {}],
    ["GET", "/openapi/v2", {}],
    ["GET", "/openapi/v3/apis/apps/v1?hash=AB12", {}],
    ["GET", "/api/v1/namespaces", {}],
    ["GET", "/api/v1/namespaces/kube-system", {}],
    ["GET", "/api/v1/configmaps?labelSelector=kluctl.io%2Fdiscriminator%3Dx", {}],
    ["GET", "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node", {}],
    ["GET", "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/ann%40example.com", {}],
    ["PATCH", settings, apply],
    ["PATCH", "/api/v1/namespaces/shop", apply],
    ["PUT", settings, { "content-type": "application/json" }],
    ["POST", "/api/v1/namespaces/shop/configmaps", { "content-type": "application/json" }],
    ["DELETE", settings, {}],
  ] as const) {
    expect(refusalOf(method, url, headers), `${method} ${url}`).toBeTypeOf("object");
  }
});

test("every write becomes a dry run", () => {
  expect(asks("PATCH", `${settings}?fieldManager=kluctl&force=true`, apply).path).toBe(
    `${settings}?fieldManager=kluctl&force=true&dryRun=All`,
  );
  expect(asks("PATCH", `${settings}?dryRun=All`, apply).path).toBe(`${settings}?dryRun=All`);
  expect(asks("PUT", settings).path).toBe(`${settings}?dryRun=All`);
  expect(asks("POST", "/api/v1/namespaces/shop/configmaps").path).toMatch(/\?dryRun=All$/);
  expect(asks("DELETE", `${settings}?propagationPolicy=Background`)).toMatchObject({
    path: `${settings}?dryRun=All`,
    deleteOptions: { propagationPolicy: "Background" },
  });
});

test("a write whose query sets dryRun to anything but All is refused", () => {
  for (const query of [
    "dryRun=",
    "dryRun",
    "dryRun=all",
    "dryRun=None",
    "dryRun=All&dryRun=All",
    "dryRun=All&dryRun=",
    "dryRun=All&%64ryRun=",
    "dryrun=All",
    "DryRun=All",
    "dryRun=All;dryRun=",
    "dry%52un=%",
    "dryRun%00=All",
    "dryRun=All&x=1",
  ]) {
    for (const [method, url] of [
      ["PATCH", settings],
      ["PUT", settings],
      ["DELETE", settings],
      ["POST", "/api/v1/namespaces/shop/configmaps"],
    ] as const) {
      const headers = method === "PATCH" ? apply : {};
      expect(refusalOf(method, `${url}?${query}`, headers), `${method} ${query}`).toBe(400);
    }
  }
});

test("subresources, whole collections and access reviews are refused", () => {
  const pod = "/api/v1/namespaces/shop/pods/web";
  for (const part of ["exec", "attach", "portforward", "log", "proxy", "eviction", "binding", "ephemeralcontainers"]) {
    for (const method of ["GET", "POST", "PATCH"]) expect(refusalOf(method, `${pod}/${part}`, apply), part).toBe(403);
  }
  for (const [method, url] of [
    ["POST", "/api/v1/namespaces/shop/serviceaccounts/default/token"],
    ["DELETE", "/api/v1/namespaces/shop/configmaps"],
    ["DELETE", "/api/v1/secrets"],
    ["PATCH", "/api/v1/namespaces/shop/configmaps"],
    ["PUT", "/api/v1/namespaces"],
    ["POST", settings],
    ["PUT", "/api/v1/namespaces/shop/finalize"],
    ["PATCH", "/api/v1/namespaces/shop/status"],
    ["GET", "/api/v1/namespaces/shop/status"],
    ["GET", "/api/v1/nodes/one/proxy/metrics"],
    ["GET", "/api/v1/proxy/nodes/one"],
    ["GET", "/api/v1/watch/secrets"],
    ["GET", "/api/v1/watch/namespaces/shop/secrets"],
    ["POST", "/api/v1/namespaces/shop/bindings"],
    ["POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"],
    ["POST", "/apis/authentication.k8s.io/v1/tokenreviews"],
    ["POST", "/version"],
    ["DELETE", "/api/v1"],
  ] as const) {
    expect(refusalOf(method, url, apply), `${method} ${url}`).toBe(403);
  }
});

test("a path that is not for objects, discovery, the API description or the version is refused", () => {
  for (const url of [
    "/healthz",
    "/metrics",
    "/logs",
    "/debug/pprof",
    "/.well-known/openid-configuration",
    "/swagger.json",
  ]) {
    expect(refusalOf("GET", url), url).toBeTypeOf("number");
  }
});

test("a path that could be read in two ways is refused", () => {
  for (const url of [
    "",
    "/",
    "//api/v1/secrets",
    "/api//v1/secrets",
    "/api/v1/secrets/",
    "/api/v1/namespaces/shop/../secrets",
    "/api/v1/./secrets",
    "/api/v1/%2e%2e/secrets",
    "/api/v1/%2E/secrets",
    "/api/v1/namespaces/shop%2Fsecrets",
    "/api/v1/namespaces/shop%252Fsecrets/x",
    "/api/v1/namespaces/shop\\secrets",
    "/api/v1/namespaces/shop%5csecrets",
    "/api/v1/secrets;x=1",
    "/api/v1/secrets%3bx",
    "/api/v1/secrets%3fwatch=1",
    "/api/v1/secrets%00",
    "/api/v1/secrets%0d%0a",
    "/api/v1/secrets%",
    "/api/v1/secrets%zz",
    "/api/v1/Secrets",
    "/api/v1/secrets#x",
    "http://169.254.169.254/latest",
    "*",
    `/api/v1/${"a".repeat(3_000)}`,
  ]) {
    expect(refusalOf("GET", url), url.slice(0, 60)).toBeTypeOf("number");
  }
});

test("a name may contain any character that Kubernetes allows, and its path is sent unchanged", () => {
  const roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
  expect(asks("GET", `${roles}/system:controller:job-controller`).path).toBe(
    `${roles}/system:controller:job-controller`,
  );
  expect(asks("GET", `${roles}/ann@example.com`).path).toBe(`${roles}/ann@example.com`);
  expect(asks("GET", `${roles}/a%20b`).path).toBe(`${roles}/a%20b`);
});

test("watches are refused, however they are requested", () => {
  for (const query of [
    "watch=true",
    "watch=1",
    "watch",
    "watch=false",
    "%77atch=1",
    "allowWatchBookmarks=true",
    "sendInitialEvents=true",
  ]) {
    expect(refusalOf("GET", `/api/v1/secrets?${query}`), query).toBe(400);
    expect(refusalOf("GET", `/api/v1/namespaces/shop/secrets/login?${query}`), query).toBe(400);
  }
});

test("Secrets are recognised at every path that leads to them", () => {
  const isSecret = (method: string, url: string, headers = {}) => asks(method, url, headers).isSecret;
  expect(isSecret("GET", "/api/v1/secrets")).toBe(true);
  expect(isSecret("GET", "/api/v1/namespaces/shop/secrets")).toBe(true);
  expect(isSecret("GET", "/api/v1/namespaces/shop/secrets/login")).toBe(true);
  expect(isSecret("GET", "/api/v1/namespaces/shop/%73ecrets/login")).toBe(true);
  expect(isSecret("GET", "/api/v1/secrets/login")).toBe(true);
  expect(isSecret("PATCH", "/api/v1/namespaces/shop/secrets/login", apply)).toBe(true);
  expect(isSecret("DELETE", "/api/v1/namespaces/shop/secrets/login")).toBe(true);
  expect(isSecret("POST", "/api/v1/namespaces/shop/secrets")).toBe(true);
  expect(isSecret("GET", "/api/v1/namespaces/secrets")).toBe(false);
  expect(isSecret("GET", "/apis/example.com/v1/secrets")).toBe(false);
});

test("the proxy requests only formats that it can mask", () => {
  const secrets = "/api/v1/secrets";
  const accepted = (accept: string, url = secrets) => asks("GET", url, { accept }).accept;
  const metadata = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
  expect(accepted("application/json, */*")).toBe("application/json");
  expect(accepted("application/vnd.kubernetes.protobuf,application/json")).toBe("application/json");
  expect(accepted("application/json;as=Table;v=v1;g=meta.k8s.io,application/json")).toBe("application/json");
  const both = `application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,${metadata},application/json`;
  expect(accepted(both)).toBe("application/json");
  expect(accepted(both, "/api/v1/configmaps")).toBe(`${metadata},application/json`);
  for (const accept of [
    "application/vnd.kubernetes.protobuf",
    "application/cbor",
    "application/yaml",
    "text/plain",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    metadata,
    "application/json;stream=watch",
    "",
  ]) {
    expect(refusalOf("GET", secrets, { accept }), accept).toBe(406);
  }
  expect(refusalOf("GET", "/api/v1", { accept: "application/vnd.kubernetes.protobuf" })).toBe(406);
  expect(accepted("application/com.github.proto-openapi.spec.v2@v1.0+protobuf", "/openapi/v2")).toContain(
    "proto-openapi",
  );
});

test("a patch in a format that can copy values, or that the proxy cannot read, is refused", () => {
  const login = "/api/v1/namespaces/shop/secrets/login";
  for (const type of [
    "application/json-patch+json",
    "application/apply-patch+cbor",
    "application/yaml",
    "text/plain",
    "",
  ]) {
    expect(refusalOf("PATCH", login, { "content-type": type }), type).toBe(415);
  }
  for (const type of ["application/vnd.kubernetes.protobuf", "application/cbor", "application/yaml"]) {
    expect(refusalOf("PUT", login, { "content-type": type }), type).toBe(415);
    expect(refusalOf("POST", "/api/v1/namespaces/shop/secrets", { "content-type": type }), type).toBe(415);
  }
});

test("other methods are refused", () => {
  for (const method of ["HEAD", "OPTIONS", "TRACE", "CONNECT", "get", "PATCH ", "MKCOL"]) {
    expect(refusalOf(method, settings), method).toBe(405);
  }
});
