import { expect, test } from "vitest";
import { parse } from "yaml";
import { withImages } from "../../../src/kluctl/project-config.ts";

const images = [{ image: "app", resultImage: "app:2" }];

test("images go behind those of the chosen target, and nothing else changes", () => {
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

test.for(["[]", "text"])("%j is left to kluctl when no target is chosen", (text) => {
  expect(withImages(text, { target: undefined, images })).toBeUndefined();
});

test.for(["targets: [", "targets: 1", "targets: [null, 1, {name: other}]", "", "[]"])(
  "%j is left to kluctl when its target is chosen",
  (text) => {
    expect(withImages(text, { target: "prod", images })).toBeUndefined();
  },
);
