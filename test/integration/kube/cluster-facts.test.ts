import { expect, onTestFinished, test } from "vitest";
import type { KubeClient } from "../../../src/kube/client.ts";
import { readClusterFacts } from "../../../src/kube/cluster-facts.ts";
import { useKube } from "../../support/kube.ts";
import { patience } from "../../support/patience.ts";
import { uniqueName } from "../../support/world.ts";

const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/** Creates kinds in an API group that only this test uses. */
function useGroup(client: KubeClient) {
  const group = `${uniqueName("facts")}.example.com`;
  const nameOf = (kind: string) => `${kind.toLowerCase()}s.${group}`;
  const definition = (kind: string, fields: object) => ({
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: nameOf(kind) },
    spec: {
      group,
      scope: "Namespaced",
      names: { kind, plural: `${kind.toLowerCase()}s` },
      versions: [
        {
          name: "v1",
          served: true,
          storage: true,
          schema: { openAPIV3Schema: { type: "object", properties: fields } },
        },
      ],
    },
  });
  return {
    async add(kind: string) {
      await client.request({ method: "POST", path: definitions, body: definition(kind, {}) });
      onTestFinished(
        async () => void (await client.request({ method: "DELETE", path: `${definitions}/${nameOf(kind)}` })),
      );
      const isServed = async () => JSON.stringify(await client.request({ method: "GET", path: `/apis/${group}/v1` }));
      await expect.poll(() => isServed().catch(() => ""), patience).toContain(`"${kind}"`);
    },
    async change(kind: string, fields: object) {
      const body = definition(kind, fields);
      await client.request({ method: "PATCH", path: `${definitions}/${nameOf(kind)}`, body });
    },
    /** Resolves when the API server's discovery and schema documents no longer change. */
    async settledFacts(asked: Pick<KubeClient, "request">): Promise<string> {
      let facts = await readClusterFacts(asked);
      await expect
        .poll(
          async () => {
            const before = facts;
            facts = await readClusterFacts(asked);
            return facts === before;
          },
          { ...patience, interval: 1_500 },
        )
        .toBe(true);
      return facts;
    },
  };
}

/** A client that only accepts what API servers from 1.26 to 1.29 support. */
function asOlder({ request }: KubeClient): Pick<KubeClient, "request"> {
  const without = (accept: string | undefined) => accept?.replace(/[^,]*;v=v2;[^,]*,/, "");
  return { request: (asked) => request({ ...asked, accept: without(asked.accept), path: asked.path }) };
}

test("a kind that is added to an existing group changes the cluster facts, also with an older API server", async () => {
  const { client } = await useKube();
  const group = useGroup(client);
  await group.add("One");
  const older = asOlder(client);
  // The schemas would show the change too, but these servers may lack them.
  const withoutSchemas: Pick<KubeClient, "request"> = {
    request: (asked) => (asked.path === "/openapi/v3" ? Promise.resolve({}) : older.request(asked)),
  };
  const before = await group.settledFacts(withoutSchemas);
  await group.add("Two");
  await expect.poll(() => readClusterFacts(withoutSchemas), patience).not.toBe(before);
});

test("a changed schema of a kind changes the cluster facts", async () => {
  const { client } = await useKube();
  const group = useGroup(client);
  await group.add("One");
  const before = await group.settledFacts(client);
  await group.change("One", { spec: { type: "object", properties: { size: { type: "integer", default: 3 } } } });
  await expect.poll(() => readClusterFacts(client), patience).not.toBe(before);
});

test("an API server may lack a list of schemas, but a refused one is an error", async () => {
  const { proxied, proxy } = await useKube();
  const isSchemas = (request: string) => request === "GET /openapi/v3";
  proxy.answer(isSchemas, { status: 404 }, 1);
  await expect(readClusterFacts(proxied)).resolves.toBeTypeOf("string");
  proxy.answer(isSchemas, { status: 403 }, 1);
  await expect(readClusterFacts(proxied)).rejects.toMatchObject({ status: 403 });
});
