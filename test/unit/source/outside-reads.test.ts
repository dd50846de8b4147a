import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findOutsideReads } from "../../../src/source/outside-reads.ts";
import { useFiles } from "../../support/world.ts";

const others = {
  "base/deployment.yaml": "{}",
  "base/deep/a.yaml": "{}",
  "shared/vars.yaml": "{}",
  "apps/other/deployment.yaml": "{}",
};

/** What a project at `apps/shop` with these files names outside of it. */
async function readsOf(files: Record<string, string>, path = "apps/shop") {
  const own = Object.fromEntries(Object.entries(files).map(([name, text]) => [`apps/shop/${name}`, text]));
  return findOutsideReads(await useFiles({ ...others, ...own }), path);
}

test("relative paths out of the project are found, as seen from the file or from the project", async () => {
  const found = await readsOf({
    "deployment.yaml": "deployments: [{include: ../../base}]\nvars: [{file: '../../shared/vars.yaml'}]\n",
    "deep/er/kustomization.yml": "resources:\n- ../../../other\n",
    "item/template.yml": '{% include "../../shared/vars.yaml" %}',
  });
  expect(found).toEqual(["apps/other", "base", "shared/vars.yaml"]);
});

test("what another path contains is not listed", async () => {
  expect(await readsOf({ "a.yml": "../../base/deep/a.yaml ../../base/deep ../../base" })).toEqual(["base"]);
});

test.each([
  ["what does not exist", "../../nowhere"],
  ["a directory above the project", "../../ and .. and ../"],
  ["a place outside of the repository", "../../../../etc/passwd"],
  ["the project itself", "../shop/settings.yml and deep/../settings.yml"],
  ["dots that are no parent directory", "1..2 and ...and so on... and a..b/c and v1.../x"],
])("%s is not listed", async (_, text) => {
  expect(await readsOf({ "settings.yml": text })).toEqual([]);
});

test("a link that leads out of the repository shows nothing of what is there", async () => {
  const root = await useFiles({ "app/a.yml": "../link/passwd ../link/nowhere" });
  await symlink("/etc", join(root, "link"));
  expect(await findOutsideReads(root, "app")).toEqual([]);
});

test("a project at the root, and one that does not exist, names nothing outside", async () => {
  expect(await readsOf({ "a.yml": "../base" }, "")).toEqual([]);
  expect(await readsOf({ "a.yml": "../base" }, "apps/nowhere")).toEqual([]);
});

test("a project that names too many places counts as naming none", async () => {
  const many = Array.from({ length: 60 }, (_, n) => `lib${n}/a.yaml`);
  const root = await useFiles({
    ...Object.fromEntries(many.map((name) => [name, "{}"])),
    "app/a.yml": many.map((name) => `../${name}`).join("\n"),
  });
  expect(await findOutsideReads(root, "app")).toEqual([]);
});

test("a long hostile text takes no time", async () => {
  expect(
    await readsOf({
      "a.yml": "../".repeat(200_000),
      "b.yml": "a.".repeat(300_000),
      "c.yml": "./".repeat(300_000),
      "d.yml": "..\n".repeat(300_000),
    }),
  ).toEqual([]);
});
