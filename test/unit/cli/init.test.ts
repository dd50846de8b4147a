import { existsSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { expect, onTestFinished, test } from "vitest";
import { parse } from "yaml";
import { loadConfig } from "../../../src/config.ts";
import { createPerson } from "../../../src/cli/person.ts";
import { towline } from "../../support/command-line.ts";

function useFile(): string {
  const dir = mkdtempSync(join(tmpdir(), "towline-test-"));
  onTestFinished(() => rmSync(dir, { recursive: true }));
  return join(dir, "conf", "towline.yaml");
}

const github = ["init", "--forge", "github", "--url", "https://towline.example.com/base/"];

test("init writes a valid configuration and a secret for its owner only, and prints what to enter at the git host", async () => {
  const file = useFile();
  const { code, out } = await towline([...github, "--file", file]);
  expect(code).toBe(0);
  const secretFile = join(file, "../github-webhook.secret");
  const readFile = (path: string) => readFileSync(path, "utf8");
  const { config } = loadConfig({ env: {}, argvFlags: { config: file }, readFile });
  const secret = readFile(secretFile).trim();
  expect(config.forges).toMatchObject([{ id: "github", kind: "github" }]);
  expect(config.forges[0]?.webhookSecrets.map((one) => one.reveal())).toEqual([secret]);
  expect(statSync(secretFile).mode & 0o777).toBe(0o600);
  expect(out).toMatch(/Payload URL +https:\/\/towline\.example\.com\/base\/webhooks\/github\n/);
  expect(out).toMatch(/Secret +what is in .*github-webhook\.secret\n/);
  expect(out).not.toContain(secret);
  // Only this line makes the server render code of pull requests; no other setting in the file, or added later, does.
  expect(config.preview.enabled).toBe(false);
  expect(readFile(file)).toMatch(
    /before any review: read.*\n.*\npreview:\n {2}enabled: false\n {2}serviceAccountName: towline-preview\n/,
  );
  expect(out).toContain("preview.enabled in the file");

  const again = await towline([...github, "--file", file]);
  expect(again).toMatchObject({ code: 1, err: expect.stringContaining("already exists") as string });
  expect(readFile(secretFile).trim()).toBe(secret);

  // The new secret would overwrite this one, so the suggested command must avoid that.
  const beside = await towline([...github, "--file", join(file, "../other.yaml")]);
  expect(beside).toMatchObject({ code: 1, err: expect.stringContaining(`${secretFile} already exists`) as string });
  const [, elsewhere = ""] = /--file (\S+),/.exec(beside.err) ?? [];
  expect(await towline([...github, "--file", elsewhere])).toMatchObject({ code: 0 });
  expect(existsSync(join(elsewhere, "../github-webhook.secret"))).toBe(true);
  const pasted = ["init", "--forge", "github", "--url", "https://towline.example.com/base/webhooks/github"];
  expect((await towline([...pasted, "--file", useFile()])).out).toMatch(
    /Payload URL +https:\/\/towline\.example\.com\/base\/webhooks\/github\n/,
  );
});

test("answers pasted at once are read one by one, and the end of the input is reported", async () => {
  const said: string[] = [];
  const person = createPerson(Readable.from(["gitlab\n\nhttps:", "//t.example.com\n"]), (text) => said.push(text));
  expect([await person.ask("a? "), await person.ask("b? "), await person.ask("c? ")]).toEqual([
    ...["gitlab", "", "https://t.example.com"],
  ]);
  await expect(person.ask("d? ")).rejects.toThrow("no answer: the input ended");
  expect(said).toEqual(["a? ", "b? ", "c? ", "d? "]);
});

test("init asks for missing options in a terminal, and reports them otherwise", async () => {
  const file = useFile();
  const answers = ["gitea", "https://gitea.example.com/api/v1", "https://towline.example.com", "eu-1"];
  const ask = () => Promise.resolve(answers.shift() ?? "");
  const { code, out } = await towline(["init", "--file", file], { ask });
  expect(code).toBe(0);
  expect(out).toMatch(/Target URL +https:\/\/towline\.example\.com\/webhooks\/gitea\n/);
  expect(readFileSync(file, "utf8")).toMatch(/apiUrl: https:\/\/gitea\.example\.com\/api\/v1\n[^]*context: eu-1\n/);

  const other = useFile();
  const call = (...argv: string[]) => towline(["init", "--file", other, ...argv]);
  expect(await call()).toMatchObject({
    code: 2,
    err: expect.stringContaining("--forge is required: github, gitlab, gitea") as string,
  });
  expect(await call("--forge", "gitlab")).toMatchObject({ code: 2, err: expect.stringContaining("--url") as string });
  expect((await call("--forge", "gitea", "--url", "https://t.example.com")).err).toContain(
    "--api-url is required for gitea",
  );
  expect((await call("--forge", "gitlab", "--url", "https://t.example.com", "--api-url", "nonsense")).code).toBe(2);
  expect(existsSync(other)).toBe(false);
});

test.each([
  ["gitea", "https://gitea.example.com", "https://gitea.example.com/api/v1"],
  ["gitea", "https://example.com/git/api/v1/", "https://example.com/git/api/v1/"],
  ["gitlab", "http://gitlab.example.com:8080/", "http://gitlab.example.com:8080/api/v4"],
  ["github", "https://github.example.com", "https://github.example.com/api/v3"],
  ["github", "https://api.github.com", "https://api.github.com"],
  ["github", "https://github.com", undefined],
])("the API of %s at %s is %s", async (forge, given, apiUrl) => {
  const file = useFile();
  const where = ["--url", "https://t.example.com", "--api-url", given, "--file", file];
  expect(await towline(["init", "--forge", forge, ...where])).toMatchObject({ code: 0 });
  const { forges } = parse(readFileSync(file, "utf8")) as { forges: { apiUrl?: string }[] };
  expect(forges.map((one) => one.apiUrl)).toEqual([apiUrl]);
});

test("init repeats a question after an invalid answer, and asks nothing if the file already exists", async () => {
  const file = useFile();
  const answers = [
    "gitlub",
    "gitea",
    "",
    "nonsense",
    "https://gitea.example.com/api/v1",
    "towline",
    "https://t.example.com",
    "",
  ];
  const questions: string[] = [];
  const ask = (question: string) => (questions.push(question), Promise.resolve(answers.shift() ?? ""));
  const { code, err } = await towline(["init", "--file", file], { ask });
  expect(code).toBe(0);
  expect(questions).toHaveLength(8);
  expect(err.split("\n")).toEqual([
    "--forge is required: github, gitlab, gitea",
    "--api-url is required for gitea",
    '--api-url: "nonsense" is not an address; use one that begins with https://',
    "--url is required: the server's address for git hosts, such as https://towline.example.com",
    "",
  ]);
  const again = await towline(["init", "--file", file], { ask });
  expect(again).toMatchObject({ code: 1, err: expect.stringContaining("already exists") as string });
  expect(questions).toHaveLength(8);
});

test("a token file that cannot be read is reported before anything is written", async () => {
  const file = useFile();
  const { code, err } = await towline([...github, "--file", file, "--ensure-webhooks", "--token-file", "/nonexistent"]);
  expect([code, err]).toEqual([1, "towline: cannot use /nonexistent: no such file or directory\n"]);
  expect(existsSync(file)).toBe(false);
});
