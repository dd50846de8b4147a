import { expect, test } from "vitest";
import { annotation } from "../../../src/model.ts";
import { towline } from "../../support/command-line.ts";
import { useFakeApiServer } from "../../support/fake-api-server.ts";

const sha = "3f2c1ab7f0c94d1b8c5e2a6d0f3b9e8a7c6d5e4f";

test("a fork's commit is allowed in every deployment that follows the repository or may be shown there, and in no other", async () => {
  const api = await useFakeApiServer();
  const git = (url: string) => ({ spec: { source: { git: { url, ref: { branch: "main" } } }, interval: "5m" } });
  const ours = ["staging", "prod"].map((name) => api.add(name, git("https://git.example.com/org/shop.git")));
  const other = api.add("other", git("https://git.example.com/org/workshop"));
  const consumer = api.add("consumer", git("https://git.example.com/org/workshop"));
  const included = { [annotation.includes]: "https://git.example.com/org/shop", [annotation.previewIn]: "git.example.com/org/shop" }; // prettier-ignore
  consumer.metadata.annotations = included;
  const allow = (...argv: string[]) => towline(["preview", "--allow", ...argv, "--kubeconfig", api.kubeconfig]);

  const { code, out, err } = await allow("gitea:Org/shop#7", sha.toUpperCase());
  expect({ code, err }).toEqual({ code: 0, err: "" });
  expect(out).toMatch(
    /^shop\/consumer: [^\n]+\nshop\/prod: gitea:Org\/shop#7 may be previewed at 3f2c1ab until 2\S+Z\nshop\/staging: [^\n]+\n$/,
  );
  for (const { metadata } of ours) {
    expect(JSON.parse(metadata.annotations?.[annotation.allowPreview] ?? "")).toEqual([
      {
        pullRequest: "gitea:Org/shop#7",
        repo: "git.example.com/org/shop",
        head: sha,
        until: expect.stringMatching(/Z$/) as string,
      },
    ]);
  }
  expect(other.metadata.annotations).toBeUndefined();
});

test.each([
  [["gitea:org/shop", sha], 2, '"gitea:org/shop" is not a pull request'],
  [["gitea:org/shop#7"], 2, "--allow needs the full hash of the commit"],
  [["gitea:org/shop#7", sha.slice(0, 7)], 2, "--allow needs the full hash of the commit"],
  [["gitea:org/elsewhere#7", sha], 1, "no KluctlDeployment in the watched namespaces follows org/elsewhere"],
])("preview --allow %j is refused", async (argv, code, words) => {
  const api = await useFakeApiServer();
  api.add("staging");
  const told = await towline(["preview", "--allow", ...argv, "--kubeconfig", api.kubeconfig]);
  expect(told).toMatchObject({ code, out: "", err: expect.stringContaining(words) as string });
});
