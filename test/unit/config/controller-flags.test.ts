import { expect, test } from "vitest";
import { loadConfig } from "../../../src/config.ts";
import { toConfigSources } from "../../../src/config/controller-flags.ts";
import { findKluctlFile } from "../../../src/config/kluctl-file.ts";
import { ConfigError } from "../../../src/errors.ts";

function configOf(argv: Record<string, unknown>, env: Record<string, string> = {}, file?: string) {
  const { flags, ...rest } = toConfigSources({ argv, env, dataDir: "/data", memoryBytes: 0 });
  const argvFlags = file === undefined ? flags : { ...flags, config: "/c.yaml" };
  return loadConfig({ env, argvFlags, ...rest, readFile: () => file ?? "" }).config;
}

test("without options the defaults are those of kluctl's controller", () => {
  expect(configOf({})).toMatchObject({
    controllerName: "kluctl-controller",
    controllerNamespace: "kluctl-system",
    kubernetes: { namespaces: [] },
    metrics: { bindAddress: { port: 8080 } },
    probes: { bindAddress: { port: 8081 } },
    sourceOverride: { bindAddress: { port: 8082 } },
    leaderElection: "off",
    concurrency: 4,
    dryRun: false,
    results: { write: true, namespace: "kluctl-results", keepCommands: 5, keepValidates: 2 },
    admin: { enabled: false },
    prune: { confirm: false },
    log: { format: "json", level: "info" },
    forges: [],
  });
});

test("every option sets what it sets in kluctl's controller", () => {
  const config = configOf({
    "--kubeconfig": "/k",
    "--context": "gitops",
    "--controller-name": "other",
    "--controller-namespace": "system",
    "--namespace": "apps",
    "--metrics-bind-address": "0",
    "--health-probe-bind-address": "127.0.0.1:1",
    "--source-override-bind-address": "[::1]:2",
    "--leader-elect": true,
    "--concurrency": "9",
    "--default-service-account": "deployer",
    "--dry-run": "true",
    "--command-result-namespace": "results",
    "--write-command-result": "False",
    "--keep-command-results-count": "1",
    "--keep-validate-results-count": "0",
    "--debug": true,
    "--use-system-python": true,
    "--force-write-command-result": true,
    "--gops-agent-addr": "127.0.0.1:0",
  });
  expect(config).toMatchObject({
    controllerName: "other",
    controllerNamespace: "system",
    kubernetes: { kubeconfig: "/k", context: "gitops", namespaces: ["apps", "system"] },
    metrics: { bindAddress: undefined },
    probes: { bindAddress: { host: "127.0.0.1", port: 1 } },
    sourceOverride: { bindAddress: { host: "::1", port: 2 } },
    leaderElection: "exclusive",
    concurrency: 9,
    defaultServiceAccount: "deployer",
    dryRun: true,
    results: { write: false, namespace: "results", keepCommands: 1, keepValidates: 0 },
    log: { level: "debug" },
    kluctl: { systemPython: true, warm: false },
  });
});

test("the default concurrency fits the memory of a kluctl-controller pod, and an explicit value wins", () => {
  const of = (memoryBytes: number, argv = {}) =>
    toConfigSources({ argv, env: {}, dataDir: "/data", memoryBytes }).defaults["concurrency"];
  expect([of(0), of(2 ** 29), of(2 ** 30), of(2 ** 27)]).toEqual([4, 3, 4, 1]);
  expect(configOf({ "--concurrency": "4" }).concurrency).toBe(4);
});

test("options override KLUCTL_* variables, which override TOWLINE_* variables, the file and the defaults in this order", () => {
  const env = {
    KLUCTL_CONCURRENCY: "5",
    KLUCTL_DRY_RUN: "1",
    KLUCTL_NAMESPACE: "",
    TOWLINE_CONCURRENCY: "6",
    TOWLINE_LOG_LEVEL: "warn",
    TOWLINE_CONTROLLER_NAME: "towline",
  };
  const file = "log: { level: error, format: pretty }\nconcurrency: 7\nadmin: { enabled: true }\n";
  const config = configOf({ "--dry-run": "false" }, env, file);
  expect([config.dryRun, config.concurrency, config.log, config.admin.enabled, config.controllerName]).toEqual([
    false,
    5,
    { level: "warn", format: "pretty" },
    true,
    "towline",
  ]);
  expect(config.kubernetes.namespaces).toEqual([]);
});

test("controllers on one machine have separate data directories unless configured otherwise", () => {
  const dirs = [{}, { "--namespace": "a" }, { "--namespace": "b" }, { "--kubeconfig": "/other" }].map(
    (argv) => configOf(argv).dataDir,
  );
  expect(new Set(dirs).size).toBe(4);
  expect(configOf({ "--namespace": "a" }).dataDir).toBe(dirs[1]);
  expect(configOf({ "--namespace": "a" }).kluctl.cacheDir).toBeUndefined(); // in the data directory
  expect(configOf({}, { TOWLINE_DATA_DIR: "/mine", KLUCTL_CACHE_DIR: "/cache" })).toMatchObject({
    dataDir: "/mine",
    kluctl: { cacheDir: "/cache" },
  });
});

test("a value that kluctl would reject is reported with where it was set", () => {
  expect(() => configOf({ "--concurrency": "many" }, { KLUCTL_LEADER_ELECT: "maybe" })).toThrow(ConfigError);
  expect(() => configOf({ "--concurrency": "many" }, { KLUCTL_LEADER_ELECT: "maybe" })).toThrow(
    /KLUCTL_LEADER_ELECT {2}must be true or false\n {2}--concurrency {2}must be a whole number/,
  );
  expect(() => configOf({ "--metrics-bind-address": "8080" })).toThrow(
    /metrics\.bindAddress \(--metrics-bind-address\) {2}must be an address like/,
  );
});

test("kluctl's own file comes after its options and variables, and before Towline's settings", () => {
  const files: Record<string, string> = {
    "/home/me/.kluctl/config.yaml": "concurrency: 9\n",
    "/etc/kluctl/config.yml": [
      "concurrency: 8",
      "Controller-Name: other",
      "dry-run: true",
      "leader-elect: 'false'",
      "default-service-account: 7",
      "kubeconfig: ''",
      "target: prod",
    ].join("\n"),
  };
  const file = findKluctlFile({ HOME: "/home/me" }, fakeFiles(files));
  const env = { KLUCTL_DRY_RUN: "0", TOWLINE_CONCURRENCY: "6" };
  const argv = { "--controller-name": "mine" };
  const { flags, ...rest } = toConfigSources({ argv, env, file, dataDir: "/data", memoryBytes: 0 });

  expect(loadConfig({ env, argvFlags: flags, ...rest, readFile: () => "" }).config).toMatchObject({
    concurrency: 8,
    controllerName: "mine",
    dryRun: false,
    leaderElection: "off",
    defaultServiceAccount: "7",
  });
});

test.each([
  ["concurrency: some\n", "/etc/kluctl/config: concurrency  must be a whole number"],
  ["concurrency: 1.5\n", "/etc/kluctl/config: concurrency  must be a whole number"],
  ["dry-run: [true]\n", "/etc/kluctl/config: dry-run  must be true or false"],
  ["kubeconfig: { a: 1 }\n", "/etc/kluctl/config: kubeconfig  must be text"],
  ["kubeconfig: [\n", "the configuration file /etc/kluctl/config is not valid YAML"],
  ["- a\n", "the configuration file /etc/kluctl/config must be a mapping of kluctl's options"],
])("kluctl's file with %j is refused", (text, message) => {
  const read = () => {
    const file = findKluctlFile({}, fakeFiles({ "/etc/kluctl/config": text }));
    return toConfigSources({ argv: {}, env: {}, file, dataDir: "/data", memoryBytes: 0 });
  };
  expect(read).toThrow(message);
});

test("a kluctl file that cannot be read is reported, and a missing one is ignored", () => {
  const forbidden = () => {
    throw Object.assign(new Error("no"), { code: "EACCES" });
  };
  expect(() => findKluctlFile({}, forbidden)).toThrow(
    "cannot read the configuration file /etc/kluctl/config.json: permission denied",
  );
  expect(findKluctlFile({}, fakeFiles({}))).toBeUndefined();
  expect(findKluctlFile({}, fakeFiles({ "/etc/kluctl/config.yaml": "" }))?.values).toEqual({});
});

function fakeFiles(files: Readonly<Record<string, string>>): (path: string) => string {
  return (path) => {
    const text = files[path];
    if (text === undefined) throw Object.assign(new Error("no"), { code: "ENOENT" });
    return text;
  };
}
