import { expect, test } from "vitest";
import { stringify } from "yaml";
import { loadConfig, secretValues } from "../../../src/config.ts";
import { takeLive } from "../../../src/config/live-keys.ts";
import { printConfig } from "../../../src/config/print.ts";

const [first, second] = ["hunter2-of-thirty-two-characters-1", "hunter2-of-thirty-two-characters-2"];

function load(recording: object, env: Record<string, string> = {}, files: Record<string, string> = {}) {
  const readFile = (path: string) => (path === "towline.yaml" ? stringify({ recording }) : (files[path] ?? ""));
  return loadConfig({ env: { TOWLINE_CONFIG: "towline.yaml", ...env }, readFile });
}

test("recording is off by default, and bounded", () => {
  expect(load({}).config.recording).toEqual({
    ...{ enabled: false, days: 7, maxDeliveries: 10_000, maxSizeBytes: 32 * 1024 ** 2, keys: [] },
  });
});

test("keys come from the file, from files with one key a line, or from variables, and are never shown", () => {
  const keysOf = ({ config }: ReturnType<typeof load>) => config.recording.keys.map((key) => key.reveal());
  const inFile = load({ enabled: true, keys: [first, second] });
  expect(keysOf(inFile)).toEqual([first, second]);
  const files = { "/new": `${second}\n`, "/old": `${first}\n${first}` };
  expect(keysOf(load({ enabled: true, keyFiles: ["/new", "/old"] }, {}, files))).toEqual([second, first, first]);
  const variables = { TOWLINE_RECORDING_ENABLED: "true", TOWLINE_RECORDING_KEY: `${first},${second}` };
  expect(keysOf(load({ keyFiles: ["/gone"] }, variables))).toEqual([first, second]);
  expect(keysOf(load({ keys: [second] }, { TOWLINE_RECORDING_KEY_FILE: "/new" }, { "/new": first }))).toEqual([first]);

  expect(printConfig(inFile)).not.toContain("hunter2");
  expect(JSON.stringify(inFile.config)).not.toContain("hunter2");
  expect(secretValues(inFile.config)).toEqual(expect.arrayContaining([first, second]));
});

test.each<[string, object, string]>([
  ["no key", { enabled: true }, "recording.keys  is empty: recording needs a key; set TOWLINE_RECORDING_KEY"],
  ["a short key", { keys: ["hunter2"] }, "recording.keys[0]  is too short: a key needs 32 random characters or more"],
  ["no days", { days: 0 }, "recording.days  must be a whole number from 1 to 90"],
  ["a mistyped key", { enable: true }, 'recording.enable  is not a known key; did you mean "enabled"?'],
])("%s is reported with the field, without the value", (_, recording, message) => {
  expect(() => load(recording)).toThrow(message);
  expect(() => load(recording)).not.toThrow("hunter2");
});

test("a new key and other limits take effect without a restart", () => {
  const before = load({ enabled: true, keys: [first] }).config;
  const after = load({ enabled: false, days: 1, keys: [second, first] }).config;
  expect(takeLive(before, after).recording).toBe(after.recording);
});
