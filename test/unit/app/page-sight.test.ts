import { expect, test } from "vitest";
import type { Access } from "../../../src/web/access.ts";
import { seesAll } from "../../../src/web/sight.ts";
import { createPageSight } from "../../../src/app/page-sight.ts";
import { ApiError } from "../../../src/errors.ts";
import type { KubeRequest } from "../../../src/kube/client.ts";
import { aDeployment } from "../../support/deployments.ts";

const vic: Access = { until: 0, by: "oidc", name: "vic", groups: ["dev", "some"], role: "viewer" };
const mapping = { actAs: "caller", viewerGroups: ["dev"], operatorGroups: ["ops"], namespacesByGroup: [] } as const;
const namespaces = ["shop", "shop-test", "bank"];

interface Asked {
  readonly user: string;
  readonly groups: readonly string[];
  readonly resourceAttributes: { readonly verb: string; readonly resource: string; readonly namespace?: string };
}

/** `allowed` lists the namespaces in which reading is allowed; `*` is the whole cluster. */
function useSight(more: Partial<Parameters<typeof createPageSight>[0]["mapping"]>, allowed: readonly string[] = []) {
  const asked: Asked[] = [];
  const state = { now: 0, allowed };
  const sight = createPageSight({
    deployments: { all: () => namespaces.map((namespace) => aDeployment({ key: { namespace, name: "a" } })) },
    client: {
      request({ body }: KubeRequest) {
        const { spec } = body as { spec: Asked };
        asked.push(spec);
        return Promise.resolve({
          status: { allowed: state.allowed.includes(spec.resourceAttributes.namespace ?? "*") },
        });
      },
    },
    mapping: { ...mapping, ...more },
    now: () => state.now,
  });
  const seen = async (caller: Access) => namespaces.filter(await sight(caller));
  return { sight, seen, asked, state };
}

test("if callers are impersonated, they see the namespaces that the API server lets them read", async () => {
  const { seen, asked, state } = useSight({ groupPrefix: "team:" }, ["shop"]);
  expect(await seen(vic)).toEqual(["shop"]);
  expect(asked[0]).toEqual({
    user: "vic",
    groups: ["team:dev", "system:authenticated"],
    resourceAttributes: { verb: "get", group: "gitops.kluctl.io", resource: "kluctldeployments" },
  });
  expect(asked.map(({ resourceAttributes }) => resourceAttributes.namespace)).toEqual([undefined, ...namespaces]);

  // An answer is cached for half a minute.
  state.allowed = ["bank"];
  expect(await seen(vic)).toEqual(["shop"]);
  state.now = 30_001;
  expect(await seen(vic)).toEqual(["bank"]);
  expect(await seen({ ...vic, name: "eve" })).toEqual(["bank"]);
});

test("one access review is enough for a caller who may read all namespaces, and the token needs none", async () => {
  const { sight, asked } = useSight({}, ["*"]);
  expect(await sight(vic)).toBe(seesAll);
  expect(asked).toHaveLength(1);
  expect(await useSight({}).sight({ until: 0, by: "token", groups: [], role: "viewer" })).toBe(seesAll);
});

test("the configuration maps groups to namespaces, and no caller sees more than the API server lets them read", async () => {
  const namespacesByGroup = ["dev=shop*", "ops=*", "*=nowhere"];
  const byServer = useSight({ actAs: "server", namespacesByGroup });
  expect(await byServer.seen(vic)).toEqual(["shop", "shop-test"]);
  expect(await byServer.seen({ ...vic, groups: ["ops"] })).toEqual(namespaces);
  expect(await byServer.seen({ ...vic, groups: [] })).toEqual([]);
  expect(byServer.asked).toEqual([]);
  expect(await useSight({ namespacesByGroup }, ["shop", "bank"]).seen(vic)).toEqual(["shop"]);
  expect(await useSight({ namespacesByGroup }, ["*"]).seen(vic)).toEqual(["shop", "shop-test"]);
  expect(await useSight({ actAs: "server" }).sight(vic)).toBe(seesAll);
});

test("a failed access review shows no namespace, and the error gives the reason", async () => {
  for (const [status, words] of [
    [403, "The server is not allowed to check your access with the API server."],
    [500, "The API server did not respond to the check of your access."],
  ] as const) {
    const sight = createPageSight({
      deployments: { all: () => [] },
      client: { request: () => Promise.reject(new ApiError(status, "no")) },
      mapping,
      now: () => 0,
    });
    await expect(sight(vic)).rejects.toMatchObject({ status: 503, message: words });
  }
  await expect(useSight({}).sight({ ...vic, name: "system:admin" })).rejects.toMatchObject({ status: 403 });
});
