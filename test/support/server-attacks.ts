/**
 * The attempts of a hostile branch that aim at the server itself: at its checkouts, its proxies, its comments, and at what it
 * renders for Flux. No setting of the isolation makes a difference to them. Each attempt returns `refused`, or what it obtained.
 */
import { existsSync, readFileSync, statSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { join } from "node:path";
import { pino } from "pino";
import { onTestFinished } from "vitest";
import { createApiProxy } from "../../src/api-proxy/api-proxy.ts";
import { createDiscovery } from "../../src/api-proxy/discovery.ts";
import { createGuesses } from "../../src/api-proxy/guesses.ts";
import { permit } from "../../src/api-proxy/permit.ts";
import { Refusal } from "../../src/api-proxy/refusal.ts";
import { createSecretMasks } from "../../src/api-proxy/secret-masks.ts";
import { renderComment } from "../../src/comment/comment.ts";
import { isRecord, type JsonObject } from "../../src/kit/json.ts";
import { Report } from "../../src/model/report.ts";
import { toReport } from "../../src/preview/findings.ts";
import { answerJson, useFakeApi } from "./fake-api-access.ts";
import { fakeForge } from "./fake-forge.ts";
import { aConfigMap, aFluxResource, fakeFluxPreviews, ownedBy, substitute } from "./flux-previews.ts";
import { aPreviewWorld, base } from "./preview.ts";
import { useGitHost, useSources } from "./source.ts";
import { useTempDir } from "./world.ts";

const { signal } = new AbortController();
const canary = "CANARY-value";
const namespace = "shop";
const refused = "refused";

const toResult = (got: string | false | undefined) => (got ? `got ${got}` : refused);
const foundIn = (text: string) => toResult(/.{0,60}CANARY.{0,20}/s.exec(text)?.[0]);
const encode = (text: string) => Buffer.from(text).toString("base64");
const secret = (data: Readonly<Record<string, string>>) => ({
  apiVersion: "v1",
  kind: "Secret",
  metadata: { name: "login", namespace },
  data: Object.fromEntries(Object.entries(data).map(([key, value]) => [key, encode(value)])),
});

/** The attempts, by the first column of the table in docs/preview-security.md. */
export const serverAttacks: Readonly<Record<string, () => Promise<string>>> = {
  "have git start programs or change files at a checkout, by `.gitattributes`": attackCheckout,
  "have a host allowed by naming its own commit as the base of a merge queue's group": attackQueue,
  "keep the answers for others out of the cache of API schemas": attackDiscovery,
  "make more guesses at a Secret by attempts that fail": attackGuesses,
  "have a text judged or parsed that contains a Secret's value": attackJudges,
  "have the API server or a webhook quote a Secret in a message": attackMessages,
  "learn from the owners of fields which value of a Secret is live": attackOwners,
  "write into the comment by the name of a Kustomization or its source": attackNames,
  "write into the comment by a reason": attackReasons,
  "have a Kustomization compared with the server's own login, by one that contains itself": attackAccount,
  "read what Flux takes from a Secret, by a variable that a ConfigMap has as well": attackVariables,
  "read what Flux takes from a Secret, by the object in another Kustomization": attackOtherKustomization,
  "read objects of another repository, by a Kustomization of the same name": attackForeign,
  "read what was encrypted, by the object in another Kustomization": attackEncrypted,
};

async function attackCheckout(): Promise<string> {
  const repo = (await useGitHost()).repo("shop");
  const pwned = join(await useTempDir(), "pwned");
  const text = "$Id$\n".repeat(1_000);
  repo.write("app/text", text);
  const first = repo.push("first");
  repo.git("checkout", "-q", "-b", "feature");
  repo.write(
    ".gitattributes",
    "[attr]macro text ident working-tree-encoding=UTF-32LE\napp/** macro eol=crlf filter=evil",
  );
  repo.write("config", `[filter "evil"]\n\tsmudge = touch ${pwned}\n`);
  const head = repo.pushUnconverted([".gitattributes", "app/text", "config"]);
  const { sources } = useSources();
  const merge = await sources.merge({ url: repo.url, credentials: [], head, base: first }, signal);
  if (merge.kind === "conflict") throw new Error("the attack was not made");
  const file = join((await merge.project("app", signal)).projectDir, "text");
  const isChanged = readFileSync(file, "utf8") !== text;
  return toResult((existsSync(pwned) && "a program") || (isChanged && `a file of ${statSync(file).size} bytes`));
}

async function attackQueue(): Promise<string> {
  const repo = (await useGitHost()).repo("shop");
  const chart = (host: string) => `helmChart: {repo: "https://${host}/stable", chartVersion: 1.0.0}\n`;
  repo.write("app/helm-chart.yaml", chart("charts.example.com"));
  const tip = repo.push("first");
  repo.git("checkout", "-q", "-b", `gh-readonly-queue/main/pr-7-${tip}`);
  repo.write("app/more/helm-chart.yaml", chart("CANARY.example.com"));
  const claimed = repo.push("the base, as the name of the next branch claims");
  repo.git("checkout", "-q", "-b", `gh-readonly-queue/main/pr-7-${claimed}`);
  repo.write("app/text", "more");
  const head = repo.push("the group");
  const { sources } = useSources();
  const group = { url: repo.url, credentials: [], head, base: claimed, isMerged: true, tip };
  const merge = await sources.merge(group, signal);
  if (merge.kind === "conflict") throw new Error("the attack was not made");
  const hosts = await merge.baseHosts(signal);
  if (!hosts.includes("charts.example.com")) throw new Error("the hosts of the base branch were not read");
  return foundIn(hosts.join().replace("canary", "CANARY"));
}

async function attackDiscovery(): Promise<string> {
  const schema = { swagger: "2.0", filling: "x".repeat(16 * 2 ** 20 - 64) };
  const kinds = { kind: "APIResourceList", groupVersion: "v1", resources: [{ name: "pods", kind: "Pod" }] };
  const api = await useFakeApi((req, res) => {
    if (req.url === "/apis") answerJson(res, 200, { kind: "APIGroupDiscoveryList", items: [] }, { ETag: '"1"' });
    else answerJson(res, 200, req.url === "/api/v1" ? kinds : schema);
  });
  const discovery = createDiscovery(() => 1_000);
  const ask = async (url: string) => {
    try {
      await discovery.answer(api.access, permit({ method: "GET", url, headers: {} }), 1_000);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  };
  await ask("/openapi/v2");
  for (const hash of ["a", "b", "c"]) await ask(`/openapi/v2?hash=${hash}`);
  for (const hash of ["a", "b", "c"]) await ask(`/openapi/v3/api/v1?hash=${hash}`);
  await ask("/api/v1");
  await ask("/api/v1");
  const [schemas, asked] = ["/openapi/v2", "/api/v1"].map(
    (path) => api.requests.filter((each) => each.startsWith(`GET ${path}`)).length,
  );
  return toResult((asked !== 1 && "a cache without room") || (schemas !== 1 && `${schemas} entries for one schema`));
}

async function attackGuesses(): Promise<string> {
  const bodies: string[] = [];
  const api = await useFakeApi((req, res) => {
    void readText(req).then((text) => {
      bodies.push(text);
      answerJson(res, 409, { kind: "Status", apiVersion: "v1", status: "Failure", code: 409, message: "conflict" });
    });
  });
  const proxy = createApiProxy({ login: async () => api.access, log: pino({ level: "silent" }) });
  onTestFinished(() => proxy.close());
  for (const guess of ["one", "two", "three", canary]) {
    const run = await proxy.open({ change: "shop/prod, the same merge" });
    await fetch(`${run.url}/api/v1/namespaces/${namespace}/secrets/login`, {
      method: "PATCH",
      headers: { "Content-Type": "application/merge-patch+json" },
      body: JSON.stringify({ stringData: { password: guess } }),
    });
    await run.close();
  }
  if (!bodies[2]?.includes("three")) throw new Error("the guesses that are allowed were not sent");
  return foundIn(bodies.join("\n"));
}

async function readText(req: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of req) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** A run that has read the Secret, and its hash of the value. */
async function useMask() {
  const masks = createSecretMasks(createGuesses());
  const read = (await masks.read(secret({ password: canary }))) as { data: { password: string } };
  return { masks, mask: Buffer.from(read.data.password, "base64").toString() };
}

async function attackJudges(): Promise<string> {
  const { masks, mask } = await useMask();
  const texts = { json: `{"a": "\\u${mask}"}`, key: `{a${mask}: 1}`, alias: `{a: &${canary} x, b: *${mask}}` };
  const { document, answer } = await masks.write({ stringData: texts }, { namespace, name: "probe" });
  const sent = (document as { stringData: Record<string, string> }).stringData;
  const shown = JSON.stringify(await answer(secret(sent)));
  const decoded = Object.values(
    isRecord(JSON.parse(shown)) ? ((JSON.parse(shown) as JsonObject)["data"] as object) : {},
  );
  const answered = decoded.map((value) => Buffer.from(String(value), "base64").toString()).join("\n");
  return foundIn(`${JSON.stringify(sent).replace(`&${canary}`, "")}\n${answered}`);
}

async function attackMessages(): Promise<string> {
  const { masks } = await useMask();
  const causes = [{ reason: "FieldValueInvalid", field: "data.password", message: `Invalid value: "${canary}"` }];
  const said = [
    { code: 422, reason: "Invalid", message: `Invalid value: "${canary}"`, details: { name: "login", causes } },
    { code: 403, message: `admission webhook "check" denied the request: ${canary} is weak` },
    { code: 400, message: canary },
    { code: 500, message: canary },
  ];
  const shown = said.map((each) => masks.read({ kind: "Status", apiVersion: "v1", status: "Failure", ...each }));
  return foundIn(JSON.stringify(await Promise.all(shown)));
}

async function attackOwners(): Promise<string> {
  const { masks } = await useMask();
  const { answer } = await masks.write({ stringData: { password: "a guess" } }, { namespace, name: "login" });
  const managedFields = [{ manager: "CANARY", operation: "Update" }];
  const live = secret({ password: canary });
  return foundIn(JSON.stringify(await answer({ ...live, metadata: { ...live.metadata, managedFields } })));
}

type Renders = Readonly<Record<string, readonly JsonObject[]>>;

/** A preview of what Flux applies, with variables from a Secret that the preview does not have. */
async function previewFlux(
  resources: readonly JsonObject[],
  renders: { readonly base: Renders; readonly merged: Renders },
  live: readonly JsonObject[] = [],
) {
  const flux = fakeFluxPreviews(resources, { base: {}, merged: {} });
  flux.deps.renderer.render = ({ root, kustomizations }) => {
    const of = root.startsWith("/base") ? renders.base : renders.merged;
    const nameOf = ({ metadata }: JsonObject) => (metadata as { name: string }).name;
    const rendered = kustomizations.map(({ resource, variables }) =>
      substitute(of[nameOf(resource)] ?? [], resource, variables),
    );
    return Promise.resolve(rendered);
  };
  const world = aPreviewWorld([], { flux: flux.deps, settings: { serviceAccount: "dry-run" } });
  world.sources.nextMerge.inBase = true;
  world.sources.nextMerge.changed = { complete: true, paths: [] };
  flux.has(...live);
  await world.run();
  const report = world.told.at(-1);
  if (report === undefined || world.previews().length === 0) throw new Error("nothing was previewed");
  return { flux, report, text: JSON.stringify(world.told) };
}

const markup = "x\n\n## CANARY\n\n<img src=https://example.com/a.png>";
const kustomization = (name: string, spec: JsonObject = {}) => aFluxResource(name, { spec, owner: "root" });
const rootKustomization = aFluxResource("root", { applied: base });

async function attackNames(): Promise<string> {
  const got: string[] = [];
  for (const hostile of [
    aFluxResource(markup),
    aFluxResource("apps", { namespace: markup }),
    kustomization("apps", { sourceRef: { kind: "GitRepository", name: markup } }),
    kustomization("apps", { sourceRef: { kind: "GitRepository", name: "a", namespace: markup } }),
  ]) {
    const merged = { root: [hostile, kustomization("good")] };
    const { report } = await previewFlux([rootKustomization], { base: { root: [] }, merged });
    const parsed = Report.safeParse(JSON.parse(JSON.stringify(report)));
    if (!parsed.success) got.push("a report that cannot be read");
    // As the title of a preview, or a reason: an object of that name may be in a diff.
    const headings = [report.previews.map(({ deployment }) => deployment), report.unshown ?? []];
    got.push(foundIn(JSON.stringify(headings)));
  }
  return got.find((one) => one !== refused) ?? refused;
}

async function attackReasons(): Promise<string> {
  const reason = `${markup}\u202e ${"long ".repeat(1_000)}`;
  const report = toReport(
    { pullRequest: fakeForge().put(7), previous: undefined, repo: undefined },
    { previews: [], ignored: [], unshown: [{ deployment: "Kustomization a/b", reason }], secrets: [] },
    { startedAt: 1, finishedAt: 2 },
  );
  const comment = renderComment(report, { maxLength: 60_000, marker: "" });
  if (!comment.includes("CANARY")) throw new Error("the reason is not in the comment");
  const stored = report.unshown?.[0]?.reason ?? "";
  if (/[\n\u202e]/.test(stored) || stored.length > 600) return toResult("a reason as it was");
  const isMarkup = /^## CANARY|(?<!`)<img/m.test(comment) || comment.includes("\u202e");
  return toResult((isMarkup && "markup") || (comment.length > 3_000 && "a long comment"));
}

async function attackAccount(): Promise<string> {
  const variables = { postBuild: { substituteFrom: [{ kind: "ConfigMap", name: "vars", optional: true }] } };
  const merged = {
    root: [kustomization("c", { interval: "1m", ...variables }), aConfigMap("root", {})],
    c: [kustomization("c", { interval: "2m" }), aConfigMap("c", {})],
  };
  const { flux } = await previewFlux([rootKustomization], { base: { root: [] }, merged });
  const others = flux.accounts.filter((account) => account !== "system:serviceaccount:flux-system:dry-run");
  return toResult(others.length > 0 && `the account ${String(others[0])}`);
}

const settings = (data: Readonly<Record<string, string>>) => aConfigMap("cfg", data);
const variablesOf = (...kinds: readonly string[]) => ({
  postBuild: { substituteFrom: kinds.map((kind) => ({ kind, name: "vars" })) },
});
const app = (...kinds: readonly string[]) => aFluxResource("app", { spec: variablesOf(...kinds), applied: base });

async function attackVariables(): Promise<string> {
  const of = (level: string) => ({ app: [ownedBy("app", settings({ password: "${PASSWORD}", level }))] });
  const live = [
    aConfigMap("vars", { PASSWORD: "public" }, { namespace: "flux-system" }),
    ownedBy("app", settings({ password: canary, level: "1" })),
  ];
  const { text } = await previewFlux([app("ConfigMap", "Secret")], { base: of("1"), merged: of("2") }, live);
  return foundIn(text);
}

async function attackOtherKustomization(): Promise<string> {
  const own = { app: [ownedBy("app", settings({ password: "${PASSWORD}" }))] };
  const merged = { ...own, other: [ownedBy("other", settings({ password: "x" }))] };
  const resources = [app("Secret"), aFluxResource("other", { applied: base })];
  const got: string[] = [];
  for (const appliedBy of ["app", "other"]) {
    const live = [ownedBy(appliedBy, settings({ password: canary }))];
    got.push(foundIn((await previewFlux(resources, { base: own, merged }, live)).text));
  }
  return got.find((one) => one !== refused) ?? refused;
}

async function attackForeign(): Promise<string> {
  const hostile = [ownedBy("foreign", settings({ password: "x" }))];
  const merged = { root: [kustomization("foreign")], foreign: hostile };
  const live = [ownedBy("foreign", settings({ password: canary }))];
  return foundIn((await previewFlux([rootKustomization], { base: {}, merged }, live)).text);
}

async function attackEncrypted(): Promise<string> {
  const own = { app: [ownedBy("app", settings({ password: "ENC[AES256_GCM,data:x]" }))] };
  const merged = { ...own, other: [ownedBy("other", settings({ password: "x" }))] };
  const resources = [aFluxResource("app", { applied: base }), aFluxResource("other", { applied: base })];
  const live = [ownedBy("other", settings({ password: canary }))];
  const { text } = await previewFlux(resources, { base: own, merged }, live);
  return foundIn(text);
}
