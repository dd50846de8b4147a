import { symlink } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { NamedElsewhere } from "../../../src/model/outside-reads.ts";
import { findOutsideReads } from "../../../src/source/outside-reads.ts";
import { useFiles } from "../../support/world.ts";

const others = {
  "base/deployment.yaml": "{}",
  "base/deep/a.yaml": "{}",
  "shared/vars.yaml": "{}",
  "apps/other/deployment.yaml": "{}",
};

const onlyFiles: NamedElsewhere = { paths: [], texts: [] };

interface Options {
  readonly path?: string;
  readonly named?: Partial<NamedElsewhere>;
  /** Files outside of the project. */
  readonly more?: Record<string, string>;
  /** Where each leads, by name. */
  readonly links?: Record<string, string>;
}

/** What a project at `apps/shop` with these files may read outside of it. */
async function readsOf(
  files: Record<string, string>,
  { path = "apps/shop", named, more = {}, links = {} }: Options = {},
) {
  const own = Object.fromEntries(Object.entries(files).map(([name, text]) => [`apps/shop/${name}`, text]));
  const root = await useFiles({ ...others, ...more, "apps/shop/.keep": "", ...own });
  for (const [name, to] of Object.entries(links)) await symlink(to, join(root, name));
  return findOutsideReads(root, path, { ...onlyFiles, ...named });
}

test("relative paths out of the project are found, as seen from the file or from a project above it", async () => {
  const found = await readsOf({
    "deployment.yaml": "deployments: [{include: ../../base}]\nvars: [{file: '../../shared/vars.yaml'}]\n",
    "deep/er/kustomization.yml": "resources:\n- ../../../other\n",
    "item/template.yml": '{% include "../../shared/vars.yaml" %}',
  });
  expect(found).toEqual(["apps/other", "base", "shared/vars.yaml"]);
  expect(await readsOf({ "sub/item/template.yml": '{% include "../../../base/deployment.yaml" %}' })).toEqual([
    "base/deployment.yaml",
  ]);
});

test("what another path contains is not listed", async () => {
  expect(await readsOf({ "a.yml": "../../base/deep/a.yaml ../../base/deep ../../base" })).toEqual(["base"]);
});

test("what is read outside is searched, too", async () => {
  const more = {
    "base/deployment.yaml": "vars: [{file: ../shared/vars.yaml}]",
    "shared/vars.yaml": "a: ../lib/x.yaml",
  };
  expect(
    await readsOf(
      { "deployment.yaml": "include: ../../base" },
      { more: { ...more, "lib/x.yaml": "from: ../apps/shop/deployment.yaml" } },
    ),
  ).toEqual(["base", "lib/x.yaml", "shared/vars.yaml"]);
});

test.each([
  ["what does not exist", "../../nowhere"],
  ["a text with dots that names a directory above", "cd ../../ and .. and ../\n"],
  ["a place outside of the repository", "../../../../etc/passwd"],
  ["the project itself", "../shop/settings.yml and deep/../settings.yml"],
  ["dots that are no parent directory", "1..2 and ...and so on... and a..b/c and v1.../x"],
])("%s is not listed", async (_, text) => {
  expect(await readsOf({ "settings.yml": text })).toEqual([]);
});

test("what only people read counts if a template in it reads something", async () => {
  expect(await readsOf({ "README.md": "See ../../base" })).toEqual([]);
  expect(await readsOf({ "README.md": 'See ../other\n{{ load_template("../../base/deep/a.yaml") }}' })).toEqual([
    "base/deep/a.yaml",
  ]);
});

test("a directory above the project counts as a whole where it is a value", async () => {
  expect(await readsOf({ "deep/deployment.yaml": "deployments:\n- include: ..\n" })).toEqual([]);
  expect(await readsOf({ "deployment.yaml": "deployments:\n- include: ..\n" })).toEqual(["apps"]);
  expect(await readsOf({ "deployment.yaml": 'deployments: [{path: "../.."}]' })).toBeUndefined();
});

test.each([
  ["in a directory", "file: ../../shared/{{ args.env }}.yaml", ["shared"]],
  ["with the beginning of a name", "file: ../../shared/v{{ args.env }}.yaml", ["shared"]],
  ["by joining texts", '{{ load_template("../../shared/" ~ args.env) }}', ["shared"]],
  ["with a name that continues", '{{ load_template("../../shared/v" ~ args.env) }}', ["shared"]],
  ["by a pattern", "glob: ../../shared/*.yaml", ["shared"]],
  ["with other letters", "file: ../../shared/vär.yaml", ["shared"]],
  ["with a space in its name", "file: '../../shared/my vars.yaml'", ["shared"]],
  ["in a directory above", "file: ../{{ args.env }}/vars.yaml", ["apps"]],
  ["in any directory", "file: ../../{{ args.env }}/vars.yaml", undefined],
  ["by joining parents", '{% include ["..", "..", name] | join("/") %}', undefined],
  ["after something unknown", "file: {{ args.dir }}/../vars.yaml", undefined],
])("a path that is put together %s may be anything there", async (_, text, expected) => {
  expect(await readsOf({ "deployment.yaml": text })).toEqual(expected);
});

test("paths of kluctl's result count before they exist, and texts from elsewhere if what they name does", async () => {
  const paths = [
    { directory: "", path: "../../config/prod.yaml" },
    { directory: "sub", path: "../../other" },
    { directory: "sub", path: "item" },
  ];
  expect(await readsOf({}, { named: { paths } })).toEqual(["apps/other", "config/prod.yaml"]);
  const texts = ['{"config":"../../shared/vars.yaml","other":"../../nowhere"}'];
  expect(await readsOf({}, { named: { texts } })).toEqual(["shared/vars.yaml"]);
});

test("charts that were pulled into a directory above count", async () => {
  const more = { ".helm-charts/db/Chart.yaml": "{}", "apps/.helm-charts/db/Chart.yaml": "{}" };
  expect(await readsOf({ "a.yml": "{}" }, { more })).toEqual([".helm-charts", "apps/.helm-charts"]);
});

test("links are followed to what they lead to", async () => {
  const more = { "base/deployment.yaml": "include: ../more", "more/a.yml": "{}", "apps/shop/item/x.yml": "{}" };
  const links = {
    "apps/shop/common": "../../base",
    "apps/shop/vars.yaml": "../../shared/vars.yaml",
    "apps/shop/later": "../../not-yet",
    "apps/shop/inside": "item",
    "apps/shop/passwd": "/etc/passwd",
  };
  // As seen from the link, `../more` is in the project; as seen from where it leads, it is not.
  expect(await readsOf({}, { more, links })).toEqual(["base", "more", "not-yet", "shared/vars.yaml"]);
});

test("a path through a link leads to where the link does, and changes with it", async () => {
  const links = { current: "base", "apps/all": ".." };
  expect(await readsOf({ "a.yml": "../../current/deep" }, { links })).toEqual(["base/deep", "current"]);
  expect(await readsOf({}, { links: { "apps/shop/up": ".." } })).toEqual(["apps"]);
  expect(await readsOf({}, { links: { "apps/shop/all": "../.." } })).toBeUndefined();
});

test("links in a circle come to an end", async () => {
  const links = { "apps/shop/self": ".", "base/back": "../apps/shop", "base/loop": "loop" };
  expect(await readsOf({ "a.yml": "../../base" }, { links })).toEqual(["base"]);
});

test("a link that leads out of the repository shows nothing of what is there", async () => {
  const root = await useFiles({ "app/a.yml": "../link/passwd ../link/nowhere" });
  await symlink("/etc", join(root, "link"));
  expect(await findOutsideReads(root, "app", onlyFiles)).toEqual([]);
});

test("a project at the root reads nothing outside, and nothing is known of one that does not exist or is a link", async () => {
  expect(await readsOf({ "a.yml": "../base" }, { path: "" })).toEqual([]);
  expect(await readsOf({ "a.yml": "../base" }, { path: "apps/nowhere" })).toBeUndefined();
  expect(await readsOf({ "a.yml": "{}" }, { path: "apps/link", links: { "apps/link": "shop" } })).toBeUndefined();
});

test("nothing is known of a project that names too many places", async () => {
  const many = Array.from({ length: 60 }, (_, n) => `lib${n}/a.yaml`);
  const more = Object.fromEntries(many.map((name) => [name, "{}"]));
  expect(await readsOf({ "a.yml": many.map((name) => `../../${name}`).join("\n") }, { more })).toBeUndefined();
});

test("a large file is only asked whether it names anything", async () => {
  const large = "a: b\n".repeat(300_000);
  expect(await readsOf({ "a.yml": `${large}dots: 1..2\n` })).toEqual([]);
  expect(await readsOf({ "a.yml": `${large}file: ../../shared/vars.yaml\n` })).toBeUndefined();
});

test.each([
  ["a.yml", "../".repeat(200_000), []],
  ["a.yml", `${"../".repeat(200_000)}a`, undefined],
  ["b.yml", "a.".repeat(300_000), []],
  ["c.yml", "./".repeat(300_000), []],
  ["d.yml", "..\n".repeat(300_000), []],
])("a long hostile text takes no time: %s", async (name, text, expected) => {
  expect(await readsOf({ [name]: text })).toEqual(expected);
});
