/** The local GitHub is only as good as the API description that it is checked against. */
import { expect, test } from "vitest";
import { checkGithubAnswer, checkGithubRequest, githubExample } from "../../support/github-openapi.ts";

function request(method: string, template: string, { query = "", body = undefined as unknown } = {}) {
  const params = { owner: "org", repo: "shop", sha: "1".repeat(40), issue_number: "7" };
  return checkGithubRequest({ method, template, query: new URLSearchParams(query), params, body });
}

test("a request that is invalid at GitHub is detected", () => {
  expect(request("GET", "/repos/{owner}/{repo}/pulls", { query: "state=open&per_page=100" })).toEqual([]);
  expect(request("GET", "/repos/{owner}/{repo}/pulls", { query: "state=opened&per_page=many&size=1" })).toHaveLength(3);
  expect(request("GET", "/repos/{owner}/{repo}/pull")).toHaveLength(1);
  const comments = "/repos/{owner}/{repo}/issues/{issue_number}/comments";
  expect(request("POST", comments, { body: { body: "hello" } })).toEqual([]);
  expect(request("POST", comments, { body: { text: "hello" } })).not.toEqual([]);
  expect(request("POST", comments)).not.toEqual([]);
  const statuses = "/repos/{owner}/{repo}/statuses/{sha}";
  expect(request("POST", statuses, { body: { state: "error" } })).toEqual([]);
  expect(request("POST", statuses, { body: { state: "canceled" } })).not.toEqual([]);
});

test("an answer that GitHub would not give is detected", () => {
  const call = { method: "POST", template: "/repos/{owner}/{repo}/issues/{issue_number}/comments" };
  const comment = githubExample("issue-comment");
  expect(checkGithubAnswer(call, 201, comment)).toEqual([]);
  expect(checkGithubAnswer(call, 201, { ...comment, user: null })).toEqual([]);
  expect(checkGithubAnswer(call, 201, { ...comment, id: "7" })).not.toEqual([]);
  expect(checkGithubAnswer(call, 201, { ...comment, html_url: undefined })).not.toEqual([]);
  expect(checkGithubAnswer(call, 202, comment)).not.toEqual([]);
  expect(checkGithubAnswer(call, 404, { message: "Not Found" })).toEqual([]);
  expect(checkGithubAnswer(call, 422, { message: "Validation Failed" })).not.toEqual([]);
});
