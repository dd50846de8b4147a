/** Flux's Kustomizations rendered by the real program, in its jail. test/foreign compares it with kustomize-controller. */
import { join } from "node:path";
import { symlink } from "node:fs/promises";
import { expect, test } from "vitest";
import { stringify } from "yaml";
import { createFluxRenderer, type ProgramRun } from "../../../src/flux/rendering/renderer.ts";
import { runProcess } from "../../../src/kluctl/process.ts";
import { errorOf, findRenderer, objectsOf, toRender, useFluxRenderer } from "../../support/flux-renderer.ts";
import { useFiles, useTempDir } from "../../support/world.ts";

const signal = new AbortController().signal;

const configMap = (name: string, data: Readonly<Record<string, string>> = {}) =>
  stringify({ apiVersion: "v1", kind: "ConfigMap", metadata: { name, namespace: "shop" }, data });

test("a Kustomization is rendered as Flux builds it, in the order in which Flux applies", async () => {
  const root = await useFiles({
    "apps/settings.yaml": configMap("settings", { color: "${color}", size: "${size:=small}" }),
    "apps/namespace.yaml": stringify({ apiVersion: "v1", kind: "Namespace", metadata: { name: "shop" } }),
    "apps/db/kustomization.yaml": stringify({ resources: ["db.yaml"], namePrefix: "main-" }),
    "apps/db/db.yaml": configMap("db"),
    "apps/db/unused.yaml": configMap("unused"),
    "docs/values.yaml": "not: an object of Kubernetes",
    ".sourceignore": "apps/ignored.yaml",
    "apps/ignored.yaml": "not: an object either",
  });
  const renderer = await useFluxRenderer();
  const postBuild = { substitute: { color: "blue" } };
  const spec = { path: "./apps", nameSuffix: "-v1", postBuild, commonMetadata: { labels: { team: "a" } } };
  const [rendered] = await renderer.render(
    { root, kustomizations: [toRender("apps", spec, { color: "red" })] },
    signal,
  );

  const labels = {
    "kustomize.toolkit.fluxcd.io/name": "apps",
    "kustomize.toolkit.fluxcd.io/namespace": "flux-system",
    team: "a",
  };
  const metadata = { namespace: "shop", labels, creationTimestamp: null };
  expect(objectsOf(rendered)).toEqual([
    expect.objectContaining({ kind: "Namespace", metadata: { name: "shop", labels, creationTimestamp: null } }),
    { apiVersion: "v1", kind: "ConfigMap", metadata: { ...metadata, name: "main-db-v1" } },
    { apiVersion: "v1", kind: "ConfigMap", metadata: { ...metadata, name: "settings-v1" }, data: { color: "blue", size: "small" } }, // prettier-ignore
  ]);
  expect(rendered).toMatchObject({
    files: ["apps/db/db.yaml", "apps/db/kustomization.yaml", "apps/namespace.yaml", "apps/settings.yaml"],
  });
});

test("a Kustomization that cannot be rendered does not affect the others, and leaves no file behind for them", async () => {
  const root = await useFiles({
    "good/settings.yaml": configMap("settings"),
    "remote/kustomization.yaml": stringify({ resources: ["https://github.com/example/base?ref=main"] }),
    "bad/values.yaml": "replicas: 3",
  });
  await symlink("/etc", join(root, "link"));
  const renderer = await useFluxRenderer();
  const paths = ["good", "remote", "bad", "link", "none", "../../good"];
  const kustomizations = paths.map((path, i) => toRender(`k${i}`, { path }));
  const rendered = await renderer.render({ root, kustomizations }, signal);

  expect(objectsOf(rendered[0])).toHaveLength(1);
  expect(rendered.slice(1, 5).map(errorOf)).toEqual([
    'remote/kustomization.yaml: "https://github.com/example/base?ref=main": remote files are not read for previews, only those of the repository',
    expect.stringMatching(/^failed to decode Kubernetes YAML from bad\/values\.yaml: missing Resource metadata/),
    "kustomization path not found: stat link: link is a symbolic link, which Flux leaves out of artifacts: no such file or directory",
    "kustomization path not found: stat none: no such file or directory",
  ]);
  // As Flux joins paths: never above the root.
  expect(objectsOf(rendered[5])).toHaveLength(1);
});

test("what SOPS encrypted stays as it is in the file", async () => {
  const encrypted = { type: "Opaque", sops: { mac: "ENC[AES256_GCM,data:bWFj]", version: "3.9.0" } };
  const secret = (name: string, values: object) =>
    stringify({ apiVersion: "v1", kind: "Secret", metadata: { name, namespace: "shop" }, ...values, ...encrypted });
  const value = { password: "ENC[AES256_GCM,data:cGFzcw==,type:str]" };
  const root = await useFiles({
    "data.yaml": secret("data", { data: value }),
    "string.yaml": secret("${name}", { stringData: value }),
  });
  const renderer = await useFluxRenderer();
  const kustomizations = [toRender("a", { postBuild: { substitute: { name: "text" } } })];
  const [rendered] = await renderer.render({ root, kustomizations }, signal);
  expect(objectsOf(rendered)).toEqual([
    expect.objectContaining({
      ...encrypted,
      data: value,
      metadata: expect.objectContaining({ name: "data" }) as object,
    }),
    expect.objectContaining({
      ...encrypted,
      stringData: value,
      metadata: expect.objectContaining({ name: "text" }) as object,
    }),
  ]);
});

test("the program gets the checkout and its request, and nothing else", async () => {
  const outside = await useFiles({ "secret.yaml": configMap("secret") });
  const root = await useFiles({
    "kustomization.yaml": stringify({ resources: [`../${outside.split("/").at(-1)}/secret.yaml`] }),
  });
  let asked: ProgramRun | undefined;
  const renderer = createFluxRenderer({
    ...{ program: await findRenderer(), searchPath: "", refusal: () => undefined },
    demands: { files: true, network: true },
    run(run, stop) {
      asked = run;
      const limits = { timeoutMs: 60_000, graceMs: 0, silenceMs: 60_000, keptBytes: 1e6, lineLength: 1e3, lines: 1e3 };
      return runProcess({ ...run, limits, signal: stop });
    },
  });
  const [rendered] = await renderer.render({ root, kustomizations: [toRender("a")] }, signal);
  expect(errorOf(rendered)).toMatch(/secret\.yaml: outside of the source/);
  expect(errorOf(rendered)).not.toContain(root);
  expect(asked?.env).toEqual({});
  const jail = asked?.args[2] ?? "";
  expect(jail).toContain(`read ${root}\n`);
  expect(jail.match(/^(?:read|write|sockets) .*$/gm)).toEqual([`read ${root}`]);
});

test("what cannot be confined is not rendered", async () => {
  const root = await useFiles({ "settings.yaml": configMap("settings") });
  const input = { root, kustomizations: [toRender("a")] };
  const refused = await useFluxRenderer({
    isolation: { mode: "required", provided: {}, missing: { network: "no rules for ports" } },
  });
  await expect(refused.render(input, signal)).rejects.toThrow(
    /isolation is "required" and part of .* no rules for ports/,
  );
  const elsewhere = await useFluxRenderer({ atRunner: true });
  await expect(elsewhere.render(input, signal)).rejects.toThrow(/rendered by a preview runner/);
  const unjailed = createFluxRenderer({
    ...{ program: await findRenderer(), searchPath: "", refusal: () => undefined },
    demands: { abi: 0, files: true, network: false },
    run: (run, stop) =>
      runProcess({ ...run, limits: { timeoutMs: 60_000, graceMs: 0, silenceMs: 60_000, keptBytes: 1e6, lineLength: 1e3, lines: 1e3 }, signal: stop }), // prettier-ignore
  });
  await expect(unjailed.render(input, signal)).rejects.toThrow(
    "Flux's Kustomizations are not rendered here: not confined: this kernel has no Landlock, which keeps files apart",
  );
});

test("a program that is missing, too slow, too large or no longer needed is reported in words", async () => {
  const root = await useFiles({ "settings.yaml": configMap("settings") });
  const input = { root, kustomizations: [toRender("a")] };
  const missing = await useFluxRenderer({ program: join(await useTempDir(), "towline-flux") });
  await expect(missing.render(input, signal)).rejects.toThrow(
    /^Flux's Kustomizations cannot be rendered: no executable file at .* \(set TOWLINE_FLUX_RENDERER to its path\)$/,
  );
  const limited = async (limits: { timeoutMs?: number; memoryBytes?: number; outputBytes?: number }) =>
    createFluxRenderer({
      ...{ program: await findRenderer(), searchPath: "", refusal: () => undefined, demands: undefined },
      limits: { timeoutMs: 60_000, memoryBytes: 1e9, outputBytes: 1e6, ...limits },
      run: ({ timeoutMs, outputBytes, ...run }, stop) =>
        runProcess({
          ...run,
          limits: { timeoutMs, graceMs: 0, silenceMs: 60_000, keptBytes: outputBytes, lineLength: 1e3, lines: 1e3 },
          signal: stop,
        }),
    });
  const slow = await limited({ timeoutMs: 1 });
  await expect(slow.render(input, signal)).rejects.toThrow(/^towline-flux was ended because it took longer than/);
  const chatty = await limited({ outputBytes: 100 });
  await expect(chatty.render(input, signal)).rejects.toThrow(/^towline-flux printed more than/);
  const renderer = await useFluxRenderer();
  await expect(renderer.render(input, AbortSignal.abort())).rejects.toThrow(/no longer needed/);
});
