import { expect, test } from "vitest";
import { type Call, toArguments } from "../../../src/kluctl/arguments.ts";
import { newRun, noDeployOptions, noDiffOptions } from "../../support/fake-kluctl.ts";

const files = { projectDir: "/p", result: "/j/result.yaml" };
const common = [
  "--no-update-check",
  "--no-color",
  "--debug=false",
  "--git-cache-update-interval=0s",
  "--project-dir=/p",
  "--timeout=60000ms",
  "--context=",
];
const out = ["-o", "yaml=/j/result.yaml"];
const held = "--write-command-result=false";

test.for<[Call, string[]]>([
  [{ command: "diff", options: noDiffOptions }, ["--no-obfuscate"]],
  [
    { command: "diff", options: { forceApply: true, replaceOnError: true, forceReplaceOnError: true } },
    ["--no-obfuscate", "--force-apply", "--replace-on-error", "--force-replace-on-error"],
  ],
  [
    { command: "deploy", options: noDeployOptions },
    ["--no-obfuscate", held, "--yes", "--readiness-timeout=10m", "--dry-run=false"],
  ],
  [
    {
      command: "deploy",
      options: { ...noDeployOptions, dryRun: true, noWait: true, abortOnError: true, forceApply: true },
    },
    ["--no-obfuscate", held, "--yes", "--readiness-timeout=10m"].concat([
      "--force-apply",
      "--dry-run=true",
      "--no-wait",
      "--abort-on-error",
    ]),
  ],
  [{ command: "poke-images", options: { dryRun: true } }, ["--no-obfuscate", held, "--yes", "--dry-run=true"]],
  [{ command: "validate" }, []],
  [{ command: "prune" }, ["--no-obfuscate", held, "--yes", "--dry-run"]],
  [
    { command: "delete", options: { discriminator: "d", dryRun: false } },
    ["--no-obfuscate", held, "--yes", "--no-wait", "--discriminator=d", "--dry-run=false"],
  ],
])("$0.command gets exactly the arguments that it needs", ([call, options]) => {
  expect(toArguments(call, newRun({}), files)).toEqual([call.command, ...common, ...options, ...out]);
});

test("every setting of a deployment is one argument with its flag", () => {
  const run = newRun({
    target: "--prune",
    targetNameOverride: "",
    context: "default",
    includeTags: ["a", "-b"],
    excludeTags: ["c,d"],
    includeDeploymentDirs: ["e"],
    excludeDeploymentDirs: ["f"],
    timeoutMs: 1_500.5,
  });
  const given = { ...files, args: "/j/args.yaml", images: "/j/images.yaml", projectConfig: "/j/kluctl.yaml" };

  expect(toArguments({ command: "validate" }, run, given)).toEqual([
    "validate",
    ...common.slice(0, 5),
    "--timeout=1501ms",
    "--project-config=/j/kluctl.yaml",
    "--context=default",
    "--target=--prune",
    "--target-name-override=",
    "--args-from-file=/j/args.yaml",
    "--fixed-images-file=/j/images.yaml",
    "--include-tag=a",
    "--include-tag=-b",
    "--exclude-tag=c,d",
    "--include-deployment-dir=e",
    "--exclude-deployment-dir=f",
    ...out,
  ]);
});

test("a generated target is chosen only if the run has no target", () => {
  const given = { ...files, madeUpTarget: "no-target" };

  expect(toArguments({ command: "validate" }, newRun({}), given)).toContain("--target=no-target");
  expect(toArguments({ command: "validate" }, newRun({ target: "prod" }), given)).toContain("--target=prod");
});
