import { execFile } from "node:child_process";
import { cp, mkdir, readFile, rm, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { extract } from "tar";
import { expect, test } from "vitest";
import { tools } from "../../../dev/tool-table.ts";
import { demoTools } from "../../../dev/demo/programs.ts";
import { useTempDir } from "../../support/world.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../../..");

test("the npm package contains the demo, which needs only the package's dependencies", async () => {
  const dir = await useTempDir();
  const installed = await install(await pack(join(dir, "source")), join(dir, "user"));
  const demo = (args: readonly string[], env: NodeJS.ProcessEnv = {}) =>
    run(process.execPath, [join(installed, "dist/src/cli.js"), "demo", ...args], {
      cwd: dir,
      env: { PATH: process.env["PATH"], HOME: dir, ...env },
    });

  expect((await demo(["--help"])).stdout).toContain("--no-webhooks");

  // Fails only after all modules and the table of releases are loaded.
  await expect(demo(["--once"], { TOWLINE_KLUCTL: "/nowhere/kluctl" })).rejects.toMatchObject({
    code: 1,
    stderr: expect.stringContaining("TOWLINE_KLUCTL: /nowhere/kluctl is not an executable file") as string,
  });

  const files = [
    ...demoTools.flatMap((name) => tools[name].build?.folder ?? []).map((folder) => `dev/tools/${folder}/go.sum`),
    ...["dev/parts/kwok-stages.yaml", "examples/shop/versions.yaml", "examples/deployments/staging.yaml"],
  ];
  for (const file of files) expect(await readFile(join(installed, file), "utf8"), file).not.toBe("");

  await rm(join(installed, "dist/dev"), { recursive: true }); // as in the image
  await expect(demo([])).rejects.toMatchObject({
    stderr: "towline: the container image does not contain the demo; run: npx towline demo\n",
  });
});

/** Returns the path of the tarball. Without types and the page: neither is needed here, and they take most of the time. */
async function pack(dir: string): Promise<string> {
  const { files } = JSON.parse(await readFile(join(root, "package.json"), "utf8")) as { files: readonly string[] };
  for (const file of ["package.json", ...files.filter((name) => name !== "dist")])
    await cp(join(root, file), join(dir, file), { recursive: true });
  const tsc = join(root, "node_modules/.bin/tsc");
  const fast = ["--noCheck", "--declaration", "false", "--sourceMap", "false"];
  await run(tsc, ["--project", join(root, "tsconfig.build.json"), ...fast, "--outDir", join(dir, "dist")]);
  const { stdout } = await run("npm", ["pack", "--ignore-scripts", "--offline", "--json"], { cwd: dir });
  const [packed] = JSON.parse(stdout) as { filename: string }[];
  return join(dir, packed?.filename ?? "");
}

/** Returns the directory of the package. Its dependencies are linked, as there may be no network. */
async function install(tarball: string, dir: string): Promise<string> {
  const modules = join(dir, "node_modules");
  const installed = join(modules, "towline");
  await mkdir(installed, { recursive: true });
  await extract({ file: tarball, cwd: installed, strip: 1 });
  const { dependencies } = JSON.parse(await readFile(join(installed, "package.json"), "utf8")) as {
    dependencies: Readonly<Record<string, string>>;
  };
  for (const name of Object.keys(dependencies)) {
    await mkdir(dirname(join(modules, name)), { recursive: true });
    await symlink(join(root, "node_modules", name), join(modules, name));
  }
  return installed;
}
