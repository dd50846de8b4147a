import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type ProgramDeps, runProgram } from "../../../src/cli/program.ts";
import type { Config } from "../../../src/config.ts";
import { useTempDir } from "../../support/world.ts";

test("serve gets the configuration from flags, variables and defaults, and its exit code is the program's", async () => {
  const { run, served } = useProgram({ env: { TOWLINE_ADMIN_PORT: "9191" }, code: 1 });
  expect(await run("serve", "--webhooks-port", "8181", "--dry-run", "--kubernetes-namespaces", "shop,blog")).toBe(1);
  expect(served).toMatchObject([
    { webhooks: { port: 8181 }, admin: { port: 9191 }, dryRun: true, kubernetes: { namespaces: ["shop", "blog"] } },
  ]);
});

test("controller run gets the same configuration from kluctl's options and variables", async () => {
  const { run, served } = useProgram({ env: { KLUCTL_CONTROLLER_NAME: "other", TOWLINE_SWEEP_INTERVAL: "30s" } });
  const options = ["--leader-elect", "--no-update-check", "--no-color=true", "--write-command-result=false"];
  expect(await run("controller", "run", ...options, "--namespace", "apps")).toBe(0);
  expect(served).toMatchObject([
    {
      controllerName: "other",
      leaderElection: "exclusive",
      results: { write: false },
      sweep: { intervalMs: 30_000 },
      kubernetes: { namespaces: ["apps", "kluctl-system"] },
    },
  ]);
  expect(await run("controller", "run", "--leader-elect=perhaps")).toBe(2);
});

test("an invalid configuration is reported on stderr, with exit code 2, and nothing is started", async () => {
  const { run, served, said } = useProgram({ env: { TOWLINE_LOG_LEVEL: "loud" } });
  expect(await run("serve")).toBe(2);
  expect(served).toEqual([]);
  expect(said()).toMatch(
    /^towline: configuration is not valid \(1 problem\)\n {2}log\.level \(TOWLINE_LOG_LEVEL\) {2}"loud"/,
  );
});

test.each([[["serv"]], [["serve", "--bogus"]], [["serve", "extra"]], [["config"]], [[]]])(
  "an invalid command line exits with 2: %j",
  async (argv) => {
    const { run, served } = useProgram();
    expect(await run(...argv)).toBe(2);
    expect(served).toEqual([]);
  },
);

test("help and version exit with 0 and print to stdout", async () => {
  const { run, printed, said } = useProgram();
  expect(await run("--help")).toBe(0);
  expect(await run("serve", "--help")).toBe(0);
  expect(printed()).not.toContain("--redis-prefix");
  expect(await run("serve", "--help-all")).toBe(0);
  expect(printed()).toContain("--redis-prefix");
  expect(await run("--version")).toBe(0);
  expect(said()).toBe("");
  expect(printed()).toContain("Exit codes:");
  expect(printed()).toMatch(/\d+\.\d+\.\d+\n$/);
});

test("help is also a command, as with kubectl", async () => {
  const [asked, meant] = [useProgram(), useProgram()];
  expect(await asked.run("help", "get", "deployments")).toBe(0);
  await meant.run("get", "deployments", "--help");
  expect(asked.printed()).toBe(meant.printed());
  expect(await useProgram().run("help")).toBe(0);
});

test("an unreachable cluster is reported within seconds, with what to do", async () => {
  const dir = await useTempDir();
  const file = join(dir, "kubeconfig");
  const cluster = { name: "gone", cluster: { server: "https://127.0.0.1:1" } };
  const context = { name: "gone", context: { cluster: "gone", user: "gone" } };
  const users = [{ name: "gone", user: {} }];
  const config = { apiVersion: "v1", kind: "Config", clusters: [cluster], contexts: [context], users };
  await writeFile(file, JSON.stringify({ ...config, "current-context": "gone" }));
  const commands = ["get deployments", "reconcile shop/prod", "trace 3f2c1ab"];
  const all = await Promise.all(
    commands.map(async (command) => {
      const program = useProgram();
      return [await program.run(...command.split(" "), "--kubeconfig", file), program.said()] as const;
    }),
  );
  for (const [code, said] of all) {
    expect(code).toBe(1);
    expect(said).toMatch(
      /^towline: cannot reach the cluster: .*127\.0\.0\.1:1.* choose another one with --kubeconfig or --context\n$/,
    );
  }
}, 15_000);

test("no secret is an option, because every user of the machine can read a process's arguments", async () => {
  const { run, printed } = useProgram();
  await run("serve", "--help-all");
  const options = [...printed().matchAll(/^\s+(?:-\w, )?--(\S+)/gm)].map(([, name]) => name);
  expect(options).toContain("redis-url-file");
  expect(
    options
      .filter((name) => /password|token|secret|redis-url/.test(name ?? ""))
      .filter((name) => !name?.endsWith("-file")),
  ).toEqual(["page-token-role", "page-proxy-secret-header", "kubernetes-read-secrets-as"]); // no secrets
});

test("config print masks secrets, config validate reports a valid configuration, and version prints JSON", async () => {
  const { run, printed } = useProgram({ env: { TOWLINE_GITEA_WEBHOOK_SECRET: "hunter2-hunter2-hunter2" } });
  expect(await run("config", "print")).toBe(0);
  expect(await run("config", "validate")).toBe(0);
  expect(await run("version")).toBe(0);
  expect(printed()).not.toContain("hunter2");
  expect(printed()).toContain("# TOWLINE_GITEA_WEBHOOK_SECRET");
  expect(printed()).toContain("the configuration is valid");
  expect(JSON.parse(printed().trim().split("\n").at(-1) ?? "")).toMatchObject({ node: process.version });
  const json = useProgram({ env: { TOWLINE_GITEA_WEBHOOK_SECRET: "hunter2-hunter2-hunter2" } });
  await json.run("config", "print", "-o", "json");
  expect(JSON.parse(json.printed())).toMatchObject({ forges: [{ kind: "gitea", webhookSecrets: ["***"] }] });
  const yaml = useProgram();
  await yaml.run("version", "-o", "yaml");
  expect(yaml.printed()).toMatch(/^version: .*\nnode: v/);
});

test("a server that fails to start exits with 1 and the reason", async () => {
  const { run, said } = useProgram({ serve: () => Promise.reject(new Error("port 8080 is in use")) });
  expect(await run("serve")).toBe(1);
  expect(said()).toBe("towline: port 8080 is in use\n");
});

test("doctor exits with its worst finding, and -o json prints JSON for programs", async () => {
  const findings = [{ level: "warning", subject: "shop/prod", message: "would be deployed" }] as const;
  const doctored: unknown[] = [];
  const doctor: ProgramDeps["doctor"] = (options) => {
    doctored.push(options);
    return Promise.resolve([{ title: "Deployments", findings }]);
  };
  const { run, printed } = useProgram({ doctor });
  const cluster = ["--kubeconfig", "/home/ann/eu.yaml", "--context", "eu-1"]; // as for all commands that read a cluster
  expect(await run("doctor", "--no-compare", "--service-account", "kluctl-system/towline", ...cluster)).toBe(1);
  expect(printed()).toContain("warning  shop/prod  would be deployed");
  expect(doctored).toMatchObject([
    {
      compare: false,
      serviceAccount: { namespace: "kluctl-system", name: "towline" },
      config: { kubernetes: { kubeconfig: "/home/ann/eu.yaml", context: "eu-1" } },
    },
  ]);
  const json = useProgram({ doctor });
  await json.run("doctor", "-o", "json");
  expect(JSON.parse(json.printed())).toMatchObject({ status: "warning" });
  const yaml = useProgram({ doctor });
  await yaml.run("doctor", "-o", "yaml");
  expect(yaml.printed()).toMatch(/^status: warning\n/);
  expect(await useProgram({ doctor }).run("doctor", "-o", "xml")).toBe(2);
  expect(await useProgram({ doctor }).run("doctor", "--service-account", "towline")).toBe(2);
});

test("the demo gets its options, and its exit code is the command's", async () => {
  const asked: unknown[] = [];
  const demo: ProgramDeps["demo"] = (options) => Promise.resolve(asked.push(options));
  expect(await useProgram({ demo }).run("demo")).toBe(1);
  expect(await useProgram({ demo }).run("demo", "--once", "--no-webhooks", "--kubeconfig", "mine")).toBe(2);
  expect(asked).toEqual([
    { once: false, webhooks: true, kubeconfig: undefined },
    { once: true, webhooks: false, kubeconfig: "mine" },
  ]);
});

interface Options {
  readonly env?: Record<string, string>;
  readonly code?: number;
  readonly serve?: () => Promise<number>;
  readonly demo?: ProgramDeps["demo"];
  readonly doctor?: ProgramDeps["doctor"];
}

function useProgram(options: Options = {}) {
  const [out, err]: [string[], string[]] = [[], []];
  const served: Config[] = [];
  const serve = (config: Config): Promise<number> => {
    served.push(config);
    return Promise.resolve(options.code ?? 0);
  };
  const run = (...argv: string[]): Promise<number> =>
    runProgram(argv, {
      env: { HOME: "/home/ann", ...options.env },
      serve: options.serve ?? serve,
      demo: options.demo ?? (() => Promise.resolve(0)),
      doctor: options.doctor ?? (() => Promise.resolve([])),
      stdin: () => Promise.resolve(""),
      out: (text) => void out.push(text),
      err: (text) => void err.push(text),
    });
  return { run, served, printed: () => out.join(""), said: () => err.join("") };
}
