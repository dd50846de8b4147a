import { expect, test } from "vitest";
import { createLoader } from "../../../src/config/loader.ts";

function useFiles(files: Record<string, string>) {
  let loads = 0;
  const readFile = (path: string) => {
    const content = files[path];
    if (content === undefined) throw new Error(`no such file: ${path}`);
    return content;
  };
  const optional = (read: (path: string) => string) => {
    try {
      return read("optional");
    } catch {
      return "absent";
    }
  };
  const load = createLoader((read) => {
    loads++;
    return { config: read("config"), optional: optional(read) };
  }, readFile);
  return { files, load, loads: () => loads };
}

test("files that have not changed are not parsed again", () => {
  const { load, loads } = useFiles({ config: "a" });
  expect(load()).toBe(load());
  expect(loads()).toBe(1);
});

test("a changed file is loaded, also if it has the same length", () => {
  const { files, load, loads } = useFiles({ config: "a" });
  load();
  files["config"] = "b";
  expect(load()).toEqual({ config: "b", optional: "absent" });
  expect(loads()).toBe(2);
});

test("a file that appears or disappears is a change", () => {
  const { files, load } = useFiles({ config: "a" });
  load();
  files["optional"] = "there";
  expect(load().optional).toBe("there");
  delete files["optional"];
  expect(load().optional).toBe("absent");
});

test("an error is reported each time, until it is mended", () => {
  const { files, load } = useFiles({ config: "a" });
  load();
  delete files["config"];
  expect(load).toThrow("no such file: config");
  expect(load).toThrow("no such file: config");
  files["config"] = "a";
  expect(load().config).toBe("a");
});
