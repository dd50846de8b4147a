/** Artifacts from fake registries: every kind of login, and every kind of wrong answer. */
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { expect, onTestFinished, test } from "vitest";
import { createCertificateAuthority } from "../../../dev/parts/certificates.ts";
import type { SourceError } from "../../../src/errors.ts";
import type { Checkout, OciCredential, OciSource } from "../../../src/model.ts";
import {
  registryLogin,
  registryToken,
  toTar,
  useRegistryHost,
  type RegistryHost,
} from "../../support/registry-host.ts";
import { useSources } from "../../support/source.ts";

const project = { ".kluctl.yaml": "targets: []\n", "deployment.yaml": "deployments: []\n" };

function aLogin(registry: string, over: Partial<OciCredential> = {}): OciCredential {
  return { registry, secretName: "shop/login", plainHttp: false, insecureSkipTlsVerify: false, ...over };
}

function useCheckout(...deps: Parameters<typeof useSources>) {
  const watched = useSources(...deps);
  async function checkout(
    url: string,
    source: Partial<OciSource> = {},
    ...credentials: readonly OciCredential[]
  ): Promise<Checkout & { read(path: string): string }> {
    const wanted = { kind: "oci" as const, url, ref: {}, path: "", ...source, credentials };
    const opened = await watched.sources.checkout(wanted, undefined, new AbortController().signal);
    onTestFinished(() => opened.release());
    return { ...opened, read: (path) => readFileSync(join(opened.projectDir, path), "utf8") };
  }
  const failure = (...args: Parameters<typeof checkout>) =>
    checkout(...args).then(
      () => undefined,
      ({ problem, message }: SourceError) => ({ problem, message }),
    );
  return { ...watched, checkout, failure };
}

const pulls = ({ asked }: RegistryHost) => asked.filter((line) => line.includes("/blobs/")).length;

test("a tag, a digest and the default tag resolve to their artifacts", async () => {
  const registry = await useRegistryHost();
  const old = registry.push("org/shop", "v1", { ...project, version: "1" });
  registry.push("org/shop", "v2", { ...project, version: "2" });
  registry.push("org/shop", "latest", { ...project, version: "3" });
  const { checkout, work } = useCheckout();
  const url = registry.url("org/shop");

  expect((await checkout(url, { ref: { tag: "v2" } })).read("version")).toBe("2");
  expect((await checkout(url)).read("version")).toBe("3");
  const pinned = await checkout(url, { ref: { digest: old, tag: "v2" } });
  expect(pinned.read("version")).toBe("1");
  expect(pinned.commit).toBe("");

  await pinned.release();
  expect(existsSync(pinned.root)).toBe(false);
  expect(work()).toHaveLength(2);
});

test("the digest of a tag is read without fetching the artifact", async () => {
  const registry = await useRegistryHost({ wants: "bearer" });
  const digest = registry.push("org/shop", "v1", project);
  const { sources, checkout } = useCheckout();
  const source = { kind: "oci" as const, url: registry.url("org/shop"), ref: { tag: "v1" }, path: "" };
  const credentials = [aLogin(registry.host, registryLogin)];
  const { signal } = new AbortController();

  expect(await sources.tag({ ...source, credentials }, signal)).toEqual({ digest, checkedOut: undefined });
  expect(registry.asked.filter((line) => !/^HEAD|token/.test(line))).toEqual([]);
  await checkout(source.url, source, ...credentials);
  const moved = registry.push("org/shop", "v1", { ...project, version: "2" });
  expect(await sources.tag({ ...source, credentials }, signal)).toEqual({ digest: moved, checkedOut: digest });
  await expect(sources.tag({ ...source, credentials: [] }, signal)).rejects.toThrow("401 Unauthorized");
});

test("a directory of an artifact is inside a git repository with a single commit", async () => {
  const registry = await useRegistryHost();
  registry.push("shop", "latest", { "teams/a/deployment.yaml": "a", "teams/.git/config": "[core]" });
  const { checkout, failure } = useCheckout();

  const { root, projectDir } = await checkout(registry.url("shop"), { path: "teams/a" });

  expect(projectDir).toBe(join(root, "teams/a"));
  const git = (...args: string[]) => execFileSync("git", args, { cwd: projectDir, encoding: "utf8" }).trim();
  expect(git("rev-parse", "--show-toplevel")).toBe(root);
  expect(git("log", "--format=%s")).toBe("Artifact");
  expect(git("fsck", "--strict")).toBe("");
  expect(await failure(registry.url("shop"), { path: "teams/b" })).toMatchObject({ problem: "path-not-found" });
  expect(await failure(registry.url("shop"), { path: "../x" })).toMatchObject({ problem: "refused" });
});

test("the origin of an artifact is read from kluctl's annotation, if that is valid", async () => {
  const registry = await useRegistryHost();
  const { checkout } = useCheckout();
  const commit = "0f".repeat(20);
  const push = (gitInfo: string) =>
    registry.push("shop", "latest", project, { annotations: { "io.kluctl.image.git_info": gitInfo } });

  push(JSON.stringify({ url: "https://git.test/x", ref: { branch: "main" }, subDir: "", commit, dirty: false }));
  expect(await checkout(registry.url("shop"))).toMatchObject({ commit, madeFrom: { branch: "main" } });
  push(JSON.stringify({ commit, ref: null }));
  expect(await checkout(registry.url("shop"))).toMatchObject({ commit, madeFrom: undefined });
  for (const odd of ["{", "7", JSON.stringify({ commit: "; rm -rf /", ref: "main" })]) {
    push(odd);
    expect(await checkout(registry.url("shop"))).toMatchObject({ commit: "", madeFrom: undefined });
  }
});

test("a fetched artifact is not fetched again, except with another login", async () => {
  const registry = await useRegistryHost({ wants: "basic" });
  registry.push("shop", "latest", project);
  const { checkout, sources, cacheDir } = useCheckout({ limits: { mirrorIdleMs: 0 } });
  const own = aLogin(registry.host, registryLogin);

  await Promise.all([checkout(registry.url("shop"), {}, own), checkout(registry.url("shop"), {}, own)]);
  await checkout(registry.url("shop"), {}, own);
  expect(pulls(registry)).toBe(1);
  await checkout(registry.url("shop"), {}, { ...own, identityToken: "another" });
  expect(pulls(registry)).toBe(2);

  await sources.sweepStale();
  const left = readdirSync(join(cacheDir, "oci"), { recursive: true, withFileTypes: true });
  expect(left.filter((entry) => entry.isFile())).toEqual([]);
  await checkout(registry.url("shop"), {}, own);
  expect(pulls(registry)).toBe(3);
});

test("a registry gets the password only after it has asked for it", async () => {
  const registry = await useRegistryHost({ wants: "basic" });
  registry.push("shop", "latest", project);
  const { checkout } = useCheckout();

  await checkout(registry.url("shop"), {}, aLogin(registry.host, registryLogin));

  expect(registry.asked.map((line) => line.replace(/sha256:\w+/, "digest"))).toEqual([
    "GET /v2/shop/manifests/latest",
    "GET /v2/shop/manifests/latest Basic",
    "GET /v2/shop/blobs/digest Basic",
  ]);
});

test("a registry with a token service gets a token, whatever kind of login is used", async () => {
  const registry = await useRegistryHost({ wants: "bearer" });
  registry.push("shop", "latest", project);
  const { checkout } = useCheckout();
  const url = registry.url("shop");

  await checkout(url, {}, aLogin(registry.host, registryLogin));
  expect(registry.asked).toContain("GET /token Basic");
  expect(registry.asked.filter((line) => line.startsWith("GET /token"))).toHaveLength(1);

  await checkout(url, {}, aLogin(registry.host, { identityToken: "an-identity-token" }));
  expect(Object.fromEntries(new URLSearchParams(registry.posted[0]))).toEqual({
    grant_type: "refresh_token",
    client_id: "towline",
    refresh_token: "an-identity-token",
    service: "the registry",
    scope: "repository:shop:pull",
  });

  registry.asked.length = 0;
  await checkout(url, {}, aLogin(registry.host, { token: registryToken }));
  expect(registry.asked.filter((line) => line.includes("/token"))).toEqual([]);

  // A token service that does not support identity tokens gets a normal request.
  registry.fault = (req, res) => {
    if (req.method !== "POST") return false;
    res.writeHead(404).end();
    return true;
  };
  await checkout(url, {}, aLogin(registry.host, { ...registryLogin, identityToken: "an-identity-token" }));
});

test("the first login that matches is used", async () => {
  const registry = await useRegistryHost({ wants: "basic" });
  registry.push("org/shop", "latest", project);
  const { checkout, failure } = useCheckout();
  const url = registry.url("org/shop");
  const right = aLogin(registry.host, registryLogin);
  const wrong = { ...right, password: "wrong-canary-9f2c71" };

  await checkout(
    url,
    {},
    aLogin("other.test"),
    { ...wrong, repository: "other/*" },
    { ...right, repository: "org/*" },
    wrong,
  );
  expect(await failure(url, {}, { ...wrong, repository: "**" }, right)).toMatchObject({ problem: "unauthorized" });
});

test("the server's own logins come last: its variables, then those of docker login", async () => {
  const registry = await useRegistryHost({ wants: "basic" });
  registry.push("org/shop", "latest", project);
  const url = registry.url("org/shop");
  const { username, password } = registryLogin;
  const env = { PATH: process.env["PATH"] };
  const set = {
    KLUCTL_REGISTRY_3_HOST: registry.host,
    KLUCTL_REGISTRY_3_REPOSITORY: "org/*",
    KLUCTL_REGISTRY_3_USERNAME: username,
    KLUCTL_REGISTRY_3_PASSWORD: password,
  };
  await useCheckout({ env: { ...env, ...set } }).checkout(url);
  const first = { KLUCTL_REGISTRY_HOST: registry.host, KLUCTL_REGISTRY_USERNAME: "eve" };
  expect(await useCheckout({ env: { ...env, ...set, ...first } }).failure(url)).toEqual({
    problem: "unauthorized",
    message: `cannot read ${registry.host}/org/shop:latest: authentication failed: 401 Unauthorized (the server's own login, user "eve")`,
  });
  await useCheckout({ env: { ...env, ...first } }).checkout(url, {}, aLogin(registry.host, registryLogin));

  const { cacheDir } = useCheckout();
  const { mkdir, writeFile } = await import("node:fs/promises");
  await mkdir(cacheDir, { recursive: true });
  const auth = Buffer.from(`${username}:${password}`).toString("base64");
  await writeFile(
    join(cacheDir, "config.json"),
    JSON.stringify({ auths: { [`https://${registry.host}/v1/`]: { auth } } }),
  );
  await useCheckout({ env: { ...env, DOCKER_CONFIG: cacheDir } }).checkout(url);
});

test("errors of a registry say what to do, and contain no secret", async () => {
  const registry = await useRegistryHost({ wants: "bearer" });
  registry.push("shop", "latest", project);
  const { failure } = useCheckout();
  const url = registry.url("shop");
  const label = `cannot read ${registry.host}/shop:latest: `;
  const right = aLogin(registry.host, registryLogin);
  const wrong = { ...right, password: "wrong-canary-9f2c71" };

  expect(await failure(url)).toEqual({
    problem: "unauthorized",
    message: `${label}authentication failed: 401 Unauthorized (no login: no entry of spec.credentials.oci matches)`,
  });
  expect(await failure(url, {}, wrong)).toEqual({
    problem: "unauthorized",
    message: `${label}authentication failed: 401 Unauthorized (secret shop/login, user "ada")`,
  });
  expect(await failure(url, { ref: { tag: "v9" } }, right)).toMatchObject({
    problem: "ref-not-found",
    message: expect.stringContaining("there is no tag v9") as string,
  });
  expect(await failure(registry.url("gone"), {}, right)).toMatchObject({
    problem: "not-found",
    message: expect.stringContaining("no such repository, or this login has no access to it") as string,
  });
  for (const [status, problem] of [
    [403, "unauthorized"],
    [400, "refused"],
  ] as const) {
    registry.fault = (_req, res) => {
      res.writeHead(status).end("wrong-canary-9f2c71");
      return true;
    };
    const told = await failure(url, {}, wrong);
    expect(told).toMatchObject({ problem });
    expect(told?.message).not.toContain("canary");
  }
});

test("a request to a registry that fails once is repeated, and a persistent failure is reported", async () => {
  const registry = await useRegistryHost();
  registry.push("shop", "latest", project);
  const { checkout, failure } = useCheckout();
  let left = 1;
  registry.fault = (req, res) => {
    if (left-- <= 0) return false;
    if (req.url?.includes("blobs")) req.socket.destroy();
    else res.writeHead(503).end();
    return true;
  };
  await checkout(registry.url("shop"));
  left = Infinity;
  expect(await failure(registry.url("shop"))).toMatchObject({
    problem: "unreachable",
    message: expect.stringContaining("the registry responded with status 503") as string,
  });
});

test("a request to a registry that does not answer is given up", async () => {
  const registry = await useRegistryHost();
  registry.push("shop", "latest", project);
  const { failure } = useCheckout({ limits: { silenceMs: 200 } });
  registry.fault = () => true;
  expect(await failure(registry.url("shop"))).toMatchObject({
    problem: "unreachable",
    message: expect.stringContaining("does not respond in time") as string,
  });
  registry.fault = (req, res) => {
    if (!req.url?.includes("blobs")) return false;
    res.writeHead(200, { "content-length": 1_000 }).write("half");
    return true;
  };
  expect(await failure(registry.url("shop"))).toMatchObject({ problem: "unreachable" });

  const { checkout } = useCheckout();
  registry.fault = undefined;
  await checkout(registry.url("shop"));
  expect(await useCheckout().failure("oci://127.0.0.1:9/shop")).toMatchObject({ problem: "unreachable" });
});

test("an aborted checkout rejects with the caller's reason, and leaves nothing behind", async () => {
  const registry = await useRegistryHost();
  registry.push("shop", "latest", project);
  const { sources, work } = useSources();
  const stop = new AbortController();
  const reason = new Error("no longer wanted");
  registry.fault = () => {
    stop.abort(reason);
    return true;
  };
  const source = { kind: "oci" as const, url: registry.url("shop"), ref: {}, path: "", credentials: [] };
  await expect(sources.checkout(source, undefined, stop.signal)).rejects.toBe(reason);
  expect(work()).toEqual([]);
});

test("data that does not match its digest or size is rejected", async () => {
  const registry = await useRegistryHost();
  const { failure, work, cacheDir } = useCheckout();
  const layer = registry.pushBlob(gzipSync(toTar(project)));
  const push = (layers: object[]) => registry.pushManifest("shop", "latest", { schemaVersion: 2, layers });

  for (const size of [layer.size - 1, layer.size + 1]) {
    push([{ ...layer, size }]);
    expect(await failure(registry.url("shop"))).toMatchObject({
      problem: "unreachable",
      message: expect.stringContaining("data does not match its manifest") as string,
    });
  }
  push([layer]);
  registry.fault = (req, res) => {
    if (!req.url?.includes("blobs")) return false;
    res.end(Buffer.alloc(layer.size));
    return true;
  };
  expect(await failure(registry.url("shop"))).toMatchObject({ problem: "unreachable" });
  registry.fault = undefined;

  const digest = push([layer]);
  registry.fault = (req, res) => {
    if (!req.url?.includes("manifests")) return false;
    res.end("{}");
    return true;
  };
  expect(await failure(registry.url("shop"), { ref: { digest } })).toMatchObject({
    problem: "refused",
    message: expect.stringContaining("the registry returned a different manifest") as string,
  });
  expect(work()).toEqual([]);
  expect(
    readdirSync(join(cacheDir, "oci"), { recursive: true }).filter((name) => String(name).includes("sha256")),
  ).toEqual([]);
});

test("an artifact that is not a project is an error that says why", async () => {
  const registry = await useRegistryHost();
  const { failure } = useCheckout();
  const push = (layers: object[]) => registry.pushManifest("shop", "latest", { schemaVersion: 2, layers });
  const message = async () => (await failure(registry.url("shop")))?.message.replace(/^[^:]*:[^:]*:[^:]*: /, "");

  push([]);
  expect(await message()).toBe("the artifact has no layers");
  registry.pushManifest("shop", "latest", { hello: 1 });
  expect(await message()).toBe("that is not an artifact of an OCI registry");
  push([{ digest: `sha256:${"00".repeat(32)}`, size: 1024 ** 4 }]);
  expect(await message()).toMatch(/^the artifact is larger than \d+ bytes$/);
  push([registry.pushBlob(Buffer.from("no archive"))]);
  expect(await message()).toMatch(/^cannot unpack the artifact: /);
  push([registry.pushBlob(gzipSync(toTar({ "../../out": "x" })))]);
  expect(await message()).toMatch(/^cannot unpack the artifact: .*which would lead out of it$/);
});

test("from a list of manifests, the one is used that kluctl would use", async () => {
  const registry = await useRegistryHost();
  const { checkout, failure } = useCheckout();
  const digest = registry.push("shop", "inner", { ...project, which: "amd64" });
  const other = registry.push("shop", "other", { ...project, which: "arm64" });
  const platform = (architecture: string) => ({ os: "linux", architecture });
  const list = (...manifests: object[]) => registry.pushManifest("shop", "latest", { schemaVersion: 2, manifests });

  list({ digest: other, platform: platform("arm64") }, { digest, platform: platform("amd64") });
  expect((await checkout(registry.url("shop"))).read("which")).toBe("amd64");
  list({ digest: other, platform: platform("arm64") });
  expect((await failure(registry.url("shop")))?.message).toContain(
    "none of the artifact's manifests is for linux/amd64",
  );
  const inner = list({ digest });
  registry.pushManifest("shop", "latest", { schemaVersion: 2, manifests: [{ digest: inner }] });
  expect((await failure(registry.url("shop")))?.message).toContain("a list of manifests references another list");
});

test("blobs may be on another host, which gets no login", async () => {
  const [registry, store] = await Promise.all([useRegistryHost({ wants: "basic" }), useRegistryHost()]);
  registry.push("shop", "latest", project);
  store.push("shop", "latest", project);
  const { checkout, failure } = useCheckout();
  let to = `http://${store.host}`;
  registry.fault = (req, res) => {
    if (!req.url?.includes("blobs")) return false;
    res.writeHead(307, { location: `${to}${req.url}` }).end();
    return true;
  };
  const own = aLogin(registry.host, registryLogin);
  await checkout(registry.url("shop"), {}, own);
  expect(store.asked).toHaveLength(1);
  expect(store.asked[0]).not.toContain("Basic");

  const refused = async () => (await useCheckout().failure(registry.url("shop"), {}, own))?.message;
  to = "http://169.254.169.254";
  expect(await refused()).toContain("is a link-local or metadata address");
  to = "file:///etc/passwd?";
  expect(await refused()).toContain("the registry redirects to a URL that is not https");
  to = "";
  expect(await refused()).toContain("the registry redirects more than 5 times");

  // Even if that host requires a login, it gets none: neither directly nor at the token service that it names.
  const curious = await useRegistryHost({ wants: "bearer" });
  to = `http://${curious.host}`;
  expect(await refused()).toContain("401");
  expect(curious.asked.map((line) => line.split(" ")[1])).toEqual([expect.stringContaining("/blobs/")]);
  expect(await failure("oci://169.254.169.254/shop")).toMatchObject({ problem: "refused" });
});

test("a registry with a private CA is trusted with the login's `ca`, or not verified if the login says so", async () => {
  const authority = createCertificateAuthority("The registry's");
  const { cert, key } = authority.issueServer("registry", ["127.0.0.1"]);
  const registry = await useRegistryHost({ wants: "basic", tls: { cert, key } });
  registry.push("shop", "latest", project);
  const { checkout, failure } = useCheckout();
  const url = registry.url("shop");
  const own = aLogin(registry.host, registryLogin);

  await checkout(url, {}, { ...own, ca: authority.cert });
  await checkout(url, {}, { ...own, insecureSkipTlsVerify: true });
  const stranger = createCertificateAuthority("A stranger's").cert;
  for (const ca of [undefined, stranger]) {
    const told = await failure(url, {}, { ...own, ca, plainHttp: true });
    expect(told).toMatchObject({
      problem: "unreachable",
      message: expect.stringMatching(/certificate is not trusted .*add its CA to ca of the secret/) as string,
    });
  }
  expect(await failure(url, {}, { ...own, cert: "no certificate", key: "no key" })).toMatchObject({
    problem: "unauthorized",
    message: expect.stringContaining("cert, key or ca cannot be read (secret shop/login") as string,
  });
});

test("a registry that requires a client certificate gets the one of the login", async () => {
  const authority = createCertificateAuthority("Both sides'");
  const { cert, key } = authority.issueServer("registry", ["127.0.0.1"]);
  const tls = { cert, key, ca: authority.cert, requestCert: true, rejectUnauthorized: true };
  const registry = await useRegistryHost({ tls });
  registry.push("shop", "latest", project);
  const { checkout, failure } = useCheckout();
  const client = authority.issueClient({ commonName: "towline" });
  const own = aLogin(registry.host, { ca: authority.cert });

  await checkout(registry.url("shop"), {}, { ...own, ...client });
  expect(await failure(registry.url("shop"), {}, own)).toMatchObject({ problem: "unreachable" });
});

test("a login is not sent over http if the registry uses https", async () => {
  const authority = createCertificateAuthority("The registry's");
  const tls = authority.issueServer("registry", ["127.0.0.1"]);
  const plain = await useRegistryHost();
  const registry = await useRegistryHost({ wants: "bearer", tls, realm: `http://${plain.host}/token` });
  registry.push("shop", "latest", project);
  const { failure } = useCheckout();

  const told = await failure(registry.url("shop"), {}, aLogin(registry.host, { ...registryLogin, ca: authority.cert }));

  expect(told?.message).toContain("the registry's token service is not used: its URL is not https");
  expect(plain.asked).toEqual([]);
});

test("for remote registries, plain http is used only if the login says so", async () => {
  const registry = await useRegistryHost();
  registry.push("shop", "latest", project);
  const lookup = () => Promise.resolve([{ address: "127.0.0.1" }]);
  const { checkout, failure } = useCheckout({ lookup });
  const host = `registry.test:${registry.host.split(":")[1]}`;

  expect(await failure(`oci://${host}/shop`)).toMatchObject({ problem: "unreachable" });
  expect(registry.asked).toEqual([]);
  await checkout(`oci://${host}/shop`, {}, aLogin(host, { plainHttp: true }));
  const forbidden = useCheckout({ lookup: () => Promise.resolve([{ address: "169.254.169.254" }]) });
  expect(await forbidden.failure(`oci://${host}/shop`)).toMatchObject({ problem: "refused" });
});
