import { parseResource } from "../../../../src/apis/resource.ts";
import { expect, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { parseDeployment } from "../../../../src/apis/kluctl/custom-resource.ts";
import { migrate, remarksOf, toYaml } from "../../../../src/apis/flux-kluctl/migration.ts";
import { isMalformed } from "../../../../src/model.ts";

const spec = { interval: "5m", source: { url: "https://git.test/org/shop.git" }, deployOnChanges: false };

function one(name: string, over: { spec?: object; metadata?: object } = {}) {
  const metadata = { namespace: "shop", name, uid: "u", ...over.metadata };
  return migrate(parseResource({ metadata, spec: { ...spec, ...over.spec } })!, { helmSecrets: new Map() });
}

test("the output is a resource of the newer API, with comments about what is lost above it", () => {
  const yaml = toYaml([one("prod", { spec: { dependsOn: [{ name: "db" }] } }), one("bad", { spec: { source: null } })]);
  expect(yaml).toMatch(/^---\n# shop\/prod, from flux\.kluctl\.io\/v1alpha1\n/);
  expect(yaml).toContain("\n# lost: spec.deployOnChanges: ");
  expect(yaml).toContain("\n# changed: spec.deployInterval: ");
  expect(yaml).toContain("\n# shop/bad, from flux.kluctl.io/v1alpha1, cannot be migrated\n# problem: spec.source: ");
  const [first, second] = parseAllDocuments(yaml).map((document): unknown => document.toJS());
  expect(first).toEqual({
    apiVersion: "gitops.kluctl.io/v1beta1",
    kind: "KluctlDeployment",
    metadata: { name: "prod", namespace: "shop", annotations: { "towline.dev/depends-on": "shop/db" } },
    spec: { source: { git: { url: spec.source.url } }, interval: "5m", deployInterval: "5m" },
  });
  expect(second).toBeNull();
  const read = parseDeployment({ ...(first as object), metadata: { namespace: "shop", name: "prod", uid: "u" } });
  expect(read && isMalformed(read)).toBe(false);
});

test("labels and annotations of other tools, and old requests, are not copied", () => {
  const labels = { team: "a", "kustomize.toolkit.fluxcd.io/name": "apps", "app.kubernetes.io/managed-by": "Helm" };
  const annotations = {
    "towline.dev/preview": "false",
    "kubectl.kubernetes.io/last-applied-configuration": "{}",
    "meta.helm.sh/release-name": "x",
    "reconcile.fluxcd.io/requestedAt": "1",
    "deploy.flux.kluctl.io/requestedAt": "1",
  };
  expect(one("prod", { metadata: { labels, annotations } }).resource).toMatchObject({
    metadata: {
      name: "prod",
      namespace: "shop",
      labels: { team: "a" },
      annotations: { "towline.dev/preview": "false" },
    },
  });
  expect(toYaml([one("prod", { metadata: { labels, annotations } })])).not.toMatch(
    /requestedAt|helm|kustomize|kubectl/i,
  );
});

test("dependencies from the field and from the annotation both count", () => {
  const annotations = { "towline.dev/depends-on": "dns" };
  expect(one("prod", { metadata: { annotations }, spec: { dependsOn: [{ name: "db" }] } }).resource).toMatchObject({
    metadata: { annotations: { "towline.dev/depends-on": "dns, shop/db" } },
  });
});

test("each remark names its field", () => {
  expect(remarksOf(one("prod"))).toEqual([
    expect.stringMatching(/^changed: spec\.deployInterval: /),
    expect.stringMatching(/^lost: spec\.deployOnChanges: /),
  ]);
});
