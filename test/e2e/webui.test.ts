/**
 * kluctl's web UI: what it shows for our server, compared with kluctl's own controller, and the requests that its
 * buttons make.
 */
import { expect, test } from "vitest";
import { aProject, aSpec } from "../support/project.ts";
import { useController } from "../support/kluctl-controller.ts";
import { useControllerPod } from "../support/kubelet.ts";
import { useTowlineProcess } from "../support/towline.ts";
import { useWebUi } from "../support/webui.ts";
import { type TestRepository, type TestWorld, useCluster, useWorld } from "../support/world.ts";
import { idOf, readyOf, type TestResource } from "../support/world-cluster.ts";
import { patience } from "../support/patience.ts";

type Json = Record<string, unknown>;

/** A ConfigMap, a Secret and additional objects; each target has objects of its own. */
function project(namespace: string, data: Record<string, string>, objects: Record<string, object>) {
  const metadata = { name: "login-{{ target.name }}", namespace };
  const secret = {
    apiVersion: "v1",
    kind: "Secret",
    metadata,
    stringData: { password: `hidden-${Object.values(data).join("-")}` },
  };
  const name = "settings-{{ target.name }}";
  const discriminator = `${namespace}-{{ target.name }}`;
  return aProject({ namespace, name, data, discriminator, objects: { "secret.yml": secret, ...objects } });
}

const aMap = (namespace: string, name: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name, namespace },
  data: { size: "10" },
});

/** Objects whose details are read; the last one is removed by the second push. */
const objects = [
  ["ConfigMap", "settings-prod"],
  ["Secret", "login-prod"],
  ["ConfigMap", "gone-prod"],
] as const;

/** kluctl's controller stores values of Secrets as they are; ours are obfuscated. */
function withoutSecretValues(value: object): object {
  const { kind, data, stringData, ref, changes, ...rest } = value as Json;
  if (kind === "Secret")
    return { kind, keys: Object.keys({ ...(data as object), ...(stringData as object) }), ...rest };
  const of =
    (ref as Json | undefined)?.["kind"] === "Secret" && Array.isArray(changes) ? (changes as Json[]) : undefined;
  return of ? { ...value, changes: of.map(({ type, jsonPath }) => ({ type, jsonPath })) } : value;
}

/**
 * Removes everything that differs from run to run, and the order where kluctl's varies. Texts of failed requests, which
 * are our own, are reduced to whether there is one.
 */
function comparable(value: unknown, { namespace, repo }: { namespace: string; repo: TestRepository }): unknown {
  const text = JSON.stringify(value)
    // After kluctl's message, Ready names the first error, or the commit that a suspended deployment does not deploy.
    .replaceAll(/ (?:First error|Suspended): (?:[^"\\]|\\.)*/g, "")
    .replaceAll(namespace, "<namespace>")
    .replaceAll(new URL(repo.url).pathname.slice(1).replace(/\.git$/, ""), "<repository>")
    .replaceAll(/[\da-f]{8}(-[\da-f]{4}){3}-[\da-f]{12}/g, "<id>")
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)/g, "<time>")
    .replaceAll(/\b[\da-f]{64}\b/g, "<hash>")
    .replaceAll(/\b[\da-f]{40}\b/g, "<commit>");
  return tidy(JSON.parse(text));
}

const changing = new Set([
  "managedFields",
  "deletionTimestamp",
  "deletionGracePeriodSeconds",
  "resourceVersion",
  "lastResourceVersion",
  "generation",
  "observedGeneration",
]);

function tidy(value: unknown): unknown {
  if (typeof value !== "object" || value === null) return value;
  if (Array.isArray(value)) {
    const settled = value.filter((item) => (item as { type?: unknown } | null)?.type !== "Reconciling");
    return settled.map(tidy).sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
  }
  // A requested validation renders no objects, so that we do not know their hash. Nothing reads it there.
  const isValidation = "ready" in value;
  const fields = Object.entries(withoutSecretValues(value))
    .filter(([name]) => !(isValidation && name === "renderedObjectsHash"))
    // Go writes a list without entries as null, and a status omits it.
    .filter(([name, field]) => !changing.has(name) && field !== null && !(Array.isArray(field) && field.length === 0))
    .sort(([a], [b]) => (a < b ? -1 : 1));
  return Object.fromEntries(fields.map(([name, field]) => [name, name === "commandError" ? "<text>" : tidy(field)]));
}

test("kluctl's web UI shows our deployments like those of kluctl's controller, and its buttons work", async () => {
  const world = await useWorld();
  const beside: TestWorld = { ...world, cluster: await useCluster() };
  const webui = await useWebUi(world, [world.cluster, beside.cluster]);
  const events = webui.events();
  const cluster = (await world.cluster.core.readNamespace({ name: "kube-system" })).metadata?.uid ?? "";

  /** Makes all requests of the page, for deployments in all states that its buttons can create. */
  async function tour({ cluster: { namespace, deployment }, repo: createRepo }: TestWorld) {
    const press = async (button: string, name: string, more = {}) =>
      expect(await webui.post(button, { cluster, namespace, name, ...more })).toBe(200);
    const repo = await createRepo(namespace);
    await repo.push(
      project(namespace, { color: "a-red-one" }, { "gone.yml": aMap(namespace, "gone-{{ target.name }}") }),
    );
    const [shop, manual] = [deployment("shop"), deployment("manual")];
    // Only ours retries a failed deploy by itself.
    await shop.create(aSpec(repo.url, { validate: true, args: { a: 1 }, retryInterval: "1h" }));
    await manual.create(aSpec(repo.url, { validate: true, manual: true, target: "staging" }));

    const results: Json = {};
    /** Everything that the page reads of a state's results; at once, because only the newest are kept. */
    async function read(of: string, resource: TestResource): Promise<TestResource> {
      const validation = { resultId: idOf(resource, "lastValidateResult") ?? "" };
      const deploy = { resultId: idOf(resource, "lastDeployResult") ?? "" };
      const find = () => webui.get("getCommandResult", deploy);
      await expect.poll(find, patience).toBeDefined(); // the web UI looks for new results once a second
      results[`${of} deploy`] = await find();
      results[`${of} validation`] = await webui.get("getValidateResult", validation);
      for (const objectType of ["rendered", "remote", "applied"]) {
        for (const [kind, name] of objects) {
          const query = { ...deploy, version: "v1", kind, name, namespace, objectType };
          results[`${of} ${objectType} ${name}`] = await webui.get("getCommandResultObject", query);
        }
      }
      return resource;
    }
    /** Presses a button that makes a request, and waits for the result in the status. */
    async function ask(button: string, result: string): Promise<TestResource> {
      await press(button, "shop");
      const isAnswered = ({ status }: TestResource) =>
        (status?.[result] as Json | undefined)?.["endTime"] !== undefined;
      await shop.until(`an end of ${button}`, isAnswered);
      return await shop.settles();
    }

    const waiting = await manual.settles();
    const drift = waiting.status?.["lastDriftDetectionResult"] as { renderedObjectsHash: string };
    await press("setManualObjectsHash", "manual", { objectsHash: drift.renderedObjectsHash });
    const approved = await read("approved", await manual.settles());
    await press("setSuspended", "manual", { suspend: true });
    const suspended = await manual.settles();

    const first = await read("first", await shop.settles());
    const broken = { "broken.yml": aMap(namespace, "Not_A_Name") };
    const commit = await repo.push({
      ...project(namespace, { color: "a-blue-one" }, broken),
      "app/gone.yml": undefined,
    });
    await press("reconcileNow", "shop");
    const second = await read("second", await shop.settles(commit));
    const validated = await read("validated", await ask("validateNow", "validateRequestResult"));
    const deployed = await read("deployed", await ask("deployNow", "deployRequestResult"));
    // After a deploy that failed, ours deploys again when it has pruned.
    const mend = await repo.push({ "app/broken.yml": undefined });
    await press("reconcileNow", "shop");
    const mended = await read("mended", await shop.settles(mend));
    await ask("pruneNow", "pruneRequestResult");
    // Both controllers check once more after it.
    await shop.until("no orphan", ({ status }) => status?.["lastDriftDetectionResultMessage"] === "no drift");
    const pruned = await read("pruned", await shop.settles());
    await manual.delete();
    const told = () => events.filter((event) => JSON.stringify(event).includes(`"${namespace}"`));
    const isOver = () =>
      events.some(({ type, id }) => type === "delete_kluctl_deployment" && id === waiting.metadata?.uid);
    await expect.poll(isOver, patience).toBe(true);
    const newest = Object.fromEntries(
      told().map((event) => {
        const { deployment: resource, summary } = event as { deployment?: TestResource; summary?: { id: string } };
        return [`${String(event["type"])} ${resource?.metadata?.name ?? summary?.id ?? ""}`, event];
      }),
    );
    const states = { waiting, approved, suspended, first, second, validated, deployed, mended, pruned };
    const shown = comparable({ ...states, results }, { namespace, repo });
    // Each once: ours also validates after a requested deploy and a prune.
    const said = comparable(Object.values(newest), { namespace, repo }) as Json[];
    return { ...states, shown, said: [...new Set(said.map((event) => JSON.stringify(event)))].sort() };
  }

  const towline = await useTowlineProcess(world);
  useController(beside);
  await useControllerPod(world.cluster, towline.lines);
  const logs = webui.logs({ name: "shop", namespace: world.cluster.namespace });
  const [ours, theirs] = await Promise.all([tour(world), tour(beside)]);
  expect(ours.shown).toEqual(theirs.shown);
  expect(ours.said).toEqual(theirs.said);

  expect(readyOf(ours.approved)).toMatchObject({ status: "True", message: expect.stringContaining("3 new objects") });
  expect(ours.suspended.spec).toMatchObject({ suspend: true });
  expect(readyOf(ours.second)).toMatchObject({ status: "False", reason: "DeployFailed" });
  const lastDeploy = ours.first.status?.["lastDeployResult"] as { reconcileId: string } | undefined;
  await expect
    .poll(() => logs, patience)
    .toContainEqual(
      expect.objectContaining({ level: "info", msg: "deployed", name: "shop", reconcileID: lastDeploy?.reconcileId }),
    );
});
