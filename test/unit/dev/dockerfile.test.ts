import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { expand, parseDockerfile, toPairs } from "../../../dev/image/dockerfile.ts";
import { lint } from "../../../dev/image/lint.ts";

const ours = readFileSync(join(import.meta.dirname, "../../../Dockerfile"), "utf8");

test("our Dockerfile keeps the linter's rules", () => {
  expect(lint(parseDockerfile(ours))).toEqual([]);
});

test("our image is of Node 24 on a Debian whose git is new enough, and says what it is", () => {
  const { stages } = parseDockerfile(ours);
  expect(new Set(stages.map(({ from }) => from))).toEqual(new Set(["node:24-trixie-slim"]));
  const last = stages.at(-1)?.instructions ?? [];
  const labels = last.filter(({ name }) => name === "LABEL").flatMap(({ text }) => Object.keys(toPairs(text)));
  const names = ["title", "description", "version", "revision", "licenses"];
  expect(labels).toEqual(names.map((name) => `org.opencontainers.image.${name}`));
});

test("each rule finds what it is there for", () => {
  const problems = (text: string) => lint(parseDockerfile(text)).map((problem) => problem.split(":")[0]);
  const sound =
    'FROM node:24-slim\nUSER 65532:0\nHEALTHCHECK --interval=1s CMD ["true"]\nENTRYPOINT ["a"]\nCMD ["b"]\n';
  expect(problems(sound)).toEqual([]);
  const bad: [string, string][] = [
    ["RUN apt-get update && apt-get install --yes --no-install-recommends git", "DL3009"],
    ["RUN apt-get install --no-install-recommends git", "DL3014"],
    ["RUN apt-get install -y git", "DL3015"],
    ["RUN sudo true", "DL3004"],
    ["RUN cd /tmp", "DL3003"],
    ["RUN apt install x", "DL3027"],
    ["RUN a | b", "DL4006"],
    ["RUN curl -o x http://x", "checksum"],
    ["WORKDIR app", "DL3000"],
    ["COPY --from=nobody a b", "DL3022"],
    ["USER root", "DL3002"],
  ];
  for (const [line, rule] of bad) expect(problems(`${sound}${line}\n`), line).toEqual([rule]);
  expect(problems(sound.replace("node:24-slim", "node:latest"))).toEqual(["DL3006"]);
  expect(problems(sound.replace('["b"]', "b"))).toEqual(["DL3025"]);
  expect(problems(sound.replace('CMD ["b"]\n', ""))).toEqual(["DL4003"]);
});

test("lines are joined over comments, and what is not known is an error", () => {
  const { args, stages } = parseDockerfile(
    'ARG BASE=a:1\n# nothing\nFROM ${BASE} AS one\nRUN a \\\n# why\n  && b\nCOPY --from=one --chown=1:2 x y\nCMD ["c", "d"]\n',
  );
  expect(args).toEqual({ BASE: "a:1" });
  expect(stages).toMatchObject([
    {
      from: "a:1",
      name: "one",
      instructions: [
        { line: 4, name: "RUN", text: "a   && b" },
        { name: "COPY", flags: { from: "one", chown: "1:2" }, text: "x y" },
        { name: "CMD", list: ["c", "d"] },
      ],
    },
  ]);
  expect(() => parseDockerfile("FROM a\nADD x y")).toThrow("line 2: ADD");
  expect(() => parseDockerfile("RUN x")).toThrow("before the first FROM");
  expect(expand("$A ${B} ${C:-c}${D}", { A: "1", B: "2" })).toBe("1 2 c");
});
