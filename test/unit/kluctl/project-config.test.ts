import { mkdtempSync, rmSync, symlinkSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { readProjectConfig, withImages } from "../../../src/kluctl/project-config.ts";

const images = [{ image: "app", resultImage: "app:2" }];

test("images are appended to those of the chosen target, and nothing else changes", () => {
  const text = `discriminator: "shop-{{ target.name }}"
targets:
  - name: staging
    args: {on: yes, octal: 0o10, date: 2026-01-02}
  - name: prod # for customers
    images: [{image: app, resultImage: app:1}]
args:
  - name: long
    default: ${"word ".repeat(40).trim()}
`;

  const config = withImages(text, { target: "prod", images });

  expect(config?.madeUpTarget).toBeUndefined();
  const changed = config?.text ?? "";
  expect((parse(changed) as { targets: unknown[] }).targets[1]).toEqual({
    name: "prod",
    images: [{ image: "app", resultImage: "app:1" }, ...images],
  });
  for (const line of [
    'discriminator: "shop-{{ target.name }}"',
    "on: yes, octal: 0o10, date: 2026-01-02",
    "word ".repeat(40).trim(),
  ]) {
    expect(changed).toContain(line);
  }
});

test.for(["", "{}", "# nothing\n", "args: [{name: a}]"])("%j gets a target when none is chosen", (text) => {
  const config = withImages(text, { target: undefined, images });
  expect(config?.madeUpTarget).toBe("no-target");
  expect(parse(config?.text ?? "")).toMatchObject({ targets: [{ name: "no-target", images }] });
});

test("a template stays on one line when no target is chosen", () => {
  const template = `{{ "${"word ".repeat(40)}" }}`;
  expect(withImages(`args: [{name: a}]\nnote: x ${template}\n`, { target: undefined, images })?.text).toContain(
    template,
  );
});

function useProject(): string {
  const dir = mkdtempSync(join(tmpdir(), "towline-project-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return dir;
}

test("the configuration of a project is optional and can have either name", async () => {
  const project = useProject();
  expect(await readProjectConfig(project)).toBe("{}");
  writeFileSync(join(project, ".kluctl.yaml"), "targets: []");
  expect(await readProjectConfig(project)).toBe("targets: []");
  writeFileSync(join(project, ".kluctl.yml"), "args: []");
  expect(await readProjectConfig(project)).toBe("args: []");
});

test("a configuration that is endless or too large is not read", async () => {
  const project = useProject();
  symlinkSync("/dev/zero", join(project, ".kluctl.yml"));
  expect(await readProjectConfig(project)).toBeUndefined();

  const large = useProject();
  writeFileSync(join(large, ".kluctl.yaml"), "");
  truncateSync(join(large, ".kluctl.yaml"), 8 * 1024 ** 3);
  expect(await readProjectConfig(large)).toBeUndefined();
});

test.for(["[]", "text", "targets: &all []\nargs: *all"])("%j is left to kluctl when no target is chosen", (text) => {
  expect(withImages(text, { target: undefined, images })).toBeUndefined();
});

test.for(["targets: [", "targets: *nowhere", "targets: 1", "targets: [null, 1, {name: other}]", "", "[]"])(
  "%j is left to kluctl when its target is chosen",
  (text) => {
    expect(withImages(text, { target: "prod", images })).toBeUndefined();
  },
);
