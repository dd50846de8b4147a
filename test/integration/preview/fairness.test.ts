/** Hostile branches whose templates only sleep, and the pull request of another repository. With the real kluctl. */
import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import type { KilledError } from "../../../src/errors.ts";
import { createLimit, type LimitOptions } from "../../../src/kit/limit.ts";
import { withOwnShare } from "../../../src/preview/own-share.ts";
import { createProject, newKluctl, newRun, noDiffOptions } from "../../support/fake-kluctl.ts";
import { useUnpacked } from "../../support/towline-pod.ts";
import { useCluster, useKluctl, useTempDir } from "../../support/world.ts";

const { signal } = new AbortController();
const places = 2;

async function useComparisons() {
  const [cluster, binary, unpackedDir, dir] = await Promise.all([
    useCluster(),
    useKluctl(),
    useUnpacked(),
    useTempDir(),
  ]);
  const kubeconfig = await readFile(cluster.kubeconfig, "utf8");
  const port = Number(new URL(/https?:[^"\s]+/.exec(kubeconfig)?.[0] ?? "").port);
  const kluctl = newKluctl(dir, {
    binary,
    unpackedDir,
    kubeconfigFor: () => kubeconfig,
    env: { PATH: "/usr/bin:/bin" },
    warm: true,
    limits: { idleMs: 5_000 },
    confine: { open: () => Promise.resolve({ kubeconfig, env: {}, ports: [port], close: () => Promise.resolve() }) },
  });
  onTestFinished(() => kluctl.stop());
  const comparisons = createLimit(places);
  const begun: string[] = [];
  let slots = 0;

  /** A pull request with one deployment for each template. */
  const preview = (repoName: string, number: number, ...templates: readonly string[]) => {
    const limit = <T>(work: () => Promise<T>, options: LimitOptions) => comparisons.run(work, options);
    const own = withOwnShare({ limit }, { forge: "github", repoName }, `#${number}`);
    const compared = templates.map(async (template) => {
      const slot = join(dir, `slot${slots++}`);
      await mkdir(slot);
      const projectDir = await createProject(join(slot, "clone"), {
        "deployment.yaml": "deployments: [{path: app}]",
        "app/found.yaml": `apiVersion: v1\nkind: ConfigMap\nmetadata: {name: found, namespace: ${cluster.namespace}}\ndata: {found: "${template}"}\n`,
      });
      return own.limit(
        () => {
          begun.push(`${repoName}#${number}`);
          return kluctl.diff(newRun({ cold: true, slot, projectDir, timeoutMs: 600_000 }), noDiffOptions, signal);
        },
        { signal },
      );
    });
    return Promise.allSettled(compared);
  };
  return { preview, begun };
}

const sleeping = `{{ cycler.__init__.__globals__['__builtins__']['__import__']('time').sleep(3600) }}`;

test("branches that only sleep in all places are ended, and the pull request of another repository gets the next place", async () => {
  const { preview, begun } = await useComparisons();
  const hostile = [1, 2, 3, 4].map((number) => preview("org/hostile", number, sleeping, sleeping));
  await expect.poll(() => begun.length, { timeout: 60_000 }).toBe(places);

  const [quiet] = await preview("org/quiet", 1, "{{ 6 * 7 }}");

  expect(quiet?.status).toBe("fulfilled");
  // It waited for one of the places that were taken, and for no more.
  expect(begun.indexOf("org/quiet#1")).toBe(places);
  const failures = (await Promise.all(hostile))
    .flat()
    .map((one) => (one as PromiseRejectedResult).reason as KilledError);
  expect(failures.map(({ why }) => why)).toEqual(failures.map(() => "idle"));
  expect(failures[0]?.message).toContain("remove what makes a template wait, such as a sleep");
  // Of each pull request, only what ran at the same time had to be ended.
  expect(begun.length).toBeLessThan(1 + failures.length);
});
