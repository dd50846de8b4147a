/** Previews without keys: encrypted values are not readable anywhere, and unchanged ones are not shown as changes. */
import { expect, test } from "vitest";
import { stringify } from "yaml";
import type { FileChanges } from "../../dev/parts/work-copy.ts";
import { annotation } from "../../src/model.ts";
import { aProject, aSpec } from "../support/project.ts";
import { deployShop, usePullRequests } from "../support/pull-requests.ts";
import { createSecret } from "../support/remote-cluster.ts";
import { ageMasterKey, blueKey, encryptedDotenv, encryptedJson, encryptedYaml } from "../support/sops.ts";
import { useWorld } from "../support/world.ts";

const key = { dataKey: blueKey.dataKey, masterKeys: ageMasterKey(blueKey) };
const canary = "canary-7f3a90b1c2";
/** All forms into which a template may transform the value. */
const forms = [
  canary,
  Buffer.from(canary).toString("base64").replace(/=+$/, "").slice(0, -1),
  [...canary].reverse().join(""),
  [...canary].join("-"),
  Buffer.from(canary).toString("hex"),
];

function aFile(name: string, value: string): string {
  return encryptedYaml({ [name]: value, port: 8443, replicas: 3 }, key);
}

/** All file formats that kluctl decrypts, and each value in plain objects, transformed by templates. */
function encryptedProject(namespace: string): FileChanges {
  const turned = {
    plain: "{{ hidden }}",
    within: "https://shop:{{ hidden }}@db.example.com:{{ port }}/",
    encoded: "{{ hidden | b64encode }}",
    reversed: "{{ hidden[::-1] }}",
    spread: "{{ hidden | join('-') }}",
    digest: "{{ hidden | sha256 }}",
    json: "{{ fromJson }}",
    open: "1",
  };
  const secret = (name: string) => ({ apiVersion: "v1", kind: "Secret", metadata: { name, namespace } });
  const base64 = Buffer.from(canary).toString("base64");
  return {
    ...aProject({ namespace, data: turned }),
    "deployment.yaml": stringify({
      vars: [{ file: "vars.yaml" }, { file: "more.json" }],
      deployments: [{ path: "app" }, { path: "generated" }],
    }),
    "vars.yaml": aFile("hidden", canary),
    "more.json": encryptedJson({ fromJson: canary }, key),
    "app/text.yml": encryptedYaml({ ...secret("text"), stringData: { a: canary } }, { ...key, fields: ["stringData"] }),
    "app/data.yml": encryptedYaml({ ...secret("data"), data: { a: base64 } }, { ...key, fields: ["data"] }),
    "generated/kustomization.yml": stringify({
      namespace,
      generatorOptions: { disableNameSuffixHash: true },
      configMapGenerator: [{ name: "generated", envs: ["values.env"] }],
    }),
    "generated/values.env": encryptedDotenv({ TOKEN: canary }, key),
  };
}

test("a preview shows no encrypted values, and no changes where there are none", async () => {
  const world = await useWorld();
  const { cluster } = world;
  const { namespace } = cluster;
  const pulls = await usePullRequests(world);
  const { repo, towline } = pulls;
  const project = encryptedProject(namespace);
  await repo.push(project);
  await createSecret(cluster, "keys", { "main.agekey": blueKey.identity });
  const deployment = cluster.deployment("shop");
  const decryption = { provider: "sops", secretRef: { name: "keys" } };
  await deployment.create(aSpec(repo.url, { decryption }));
  await deployment.reaches("Ready");
  expect(await cluster.data("settings")).toMatchObject({ plain: canary, reversed: forms[2], open: "1" });
  expect(await cluster.data("generated")).toEqual({ TOKEN: canary });
  const settings = String(project["app/settings.yml"]);

  const unrelated = await pulls.open({ "app/settings.yml": settings.replace('"1"', '"2"') });
  const first = await unrelated.comment("took");
  expect(first).toMatch(/^- {2}1\n\+ {2}2$/m);
  expect(first).toContain("1 changed");
  expect(first).toContain("do not decrypt");
  expect(first).not.toMatch(/Secret|generated|Encrypted values change|error/);

  const rotated = await pulls.open({
    "vars.yaml": aFile("hidden", `${canary}-newer`),
    "app/data.yml": String(project["app/text.yml"]).replace("name: text", "name: data"),
  });
  const second = await rotated.comment("took");
  expect(second).toMatch(/Encrypted values change in `app\/data.yml`, `vars.yaml`/);
  expect(second).toMatch(/plain:\n- {2}encrypted\w{11}\n\+ {2}encrypted\w{11}$/m);
  expect(second).not.toContain("generated");

  const curious = await pulls.open({ "app/settings.yml": settings.replace(/\{\{ hidden[^}]*\}\}/g, "open") });
  const third = await curious.comment("took");
  expect(third).toMatch(/plain:\n- {2}encrypted\w{11}\n\+ {2}open$/m);

  await deployment.patch({ metadata: { annotations: { [annotation.previewDecrypt]: "true" } } });
  const decrypted = await pulls.open({ "app/settings.yml": settings.replace('"1"', '"3"') });
  const fourth = await decrypted.comment("took");
  expect(fourth).toMatch(/^- {2}1\n\+ {2}3$/m);
  expect(fourth).not.toContain("do not decrypt");

  const told = JSON.stringify([first, second, third, fourth, (await deployment.get())?.status, towline.lines]);
  for (const form of forms) expect(told).not.toContain(form);
  for (const { head } of [unrelated, rotated, curious])
    expect(JSON.stringify(await pulls.statuses(head))).not.toContain(canary);
});

test("if a preview fetches from a host that is not allowed, the error names the host and what to do", async () => {
  const world = await useWorld();
  const pulls = await usePullRequests(world);
  await deployShop(world, pulls);

  const open = async (more: object) =>
    pulls.open({ "deployment.yaml": stringify({ deployments: [{ path: "app" }], ...more }) });
  const https = await open({ deployments: [{ git: { url: "https://elsewhere.example.com/library.git" } }] });
  await https.comment("previews cannot reach elsewhere.example.com; an operator can add it to preview.hosts");
  const ssh = await open({ deployments: [{ git: { url: "ssh://git@elsewhere.example.com/library.git" } }] });
  await ssh.comment("which `http` vars and ssh cannot use: fetch over https");
  const http = await open({ vars: [{ http: { url: "http://10.0.0.1/vars.yaml" } }] });
  await http.comment("which `http` vars and ssh cannot use: fetch over https");
});
