import { expect, test } from "vitest";
import { environmentOf } from "../../../../src/reporting/environments/environment.ts";
import { aDeployment } from "../../../support/deployments.ts";

const nameOf = (deployment: Parameters<typeof aDeployment>[0], task = "towline") =>
  environmentOf(aDeployment(deployment), task).name;
const annotated = (name: string) => ({ annotations: { "towline.dev/environment": name } });

test("an environment is named for the target or, without one, for the deployment", () => {
  expect(nameOf({ spec: { target: "prod" } })).toBe("prod");
  expect(nameOf({ spec: { target: "prod", targetNameOverride: "prod-eu" } })).toBe("prod-eu");
  expect(nameOf({})).toBe("shop/prod");
});

test("servers for several clusters use environments of their own", () => {
  expect(nameOf({ spec: { target: "prod" } }, "towline-eu")).toBe("towline-eu/prod");
  expect(nameOf({ ...annotated("production"), spec: { target: "prod" } }, "towline-eu")).toBe("production");
});

test.each([
  ["pröd & more", "pr-d - more"],
  ["/prod/", "prod"],
  ["//", "towline"],
  ["x".repeat(300), "x".repeat(255)],
])("a target with a name that hosts do not accept gets one that they do: %s", (target, name) => {
  expect(nameOf({ spec: { target } })).toBe(name);
});

test("the annotation names the environment, or says that there is none", () => {
  expect(nameOf(annotated(" Production EU "))).toBe("Production EU");
  expect(nameOf(annotated("review/${branch}"))).toBe("review/${branch}");
  expect(nameOf(annotated("none"))).toBeUndefined();
});

test.each(["", "/prod", "prod/", "a\nb", "prod:eu", "x".repeat(256)])(
  "an annotation with an invalid name is reported and ignored: %j",
  (name) => {
    const { name: used, problems } = environmentOf(aDeployment({ ...annotated(name), spec: { target: "prod" } }), "t");
    expect(used).toBe("t/prod");
    expect(problems).toMatchObject([expect.stringContaining("towline.dev/environment: ")]);
  },
);

test.each([
  ["https://shop.example.com", "https://shop.example.com/"],
  ["http://10.0.0.7:8080/a?b=c", "http://10.0.0.7:8080/a?b=c"],
])("the URL %s becomes the environment's", (text, url) => {
  const annotations = { "towline.dev/environment-url": text };
  expect(environmentOf(aDeployment({ annotations }), "towline")).toMatchObject({ url, problems: [] });
});

test.each([
  "javascript:alert(1)",
  "ftp://shop.example.com",
  "shop.example.com",
  "https://user:canary@shop.example.com",
  `https://shop.example.com/${"x".repeat(250)}`,
])("a link that is not a web page, or has credentials, is ignored and not repeated: %s", (text) => {
  const annotations = { "towline.dev/environment-url": text };
  const { url, problems } = environmentOf(aDeployment({ annotations }), "towline");
  expect(url).toBeUndefined();
  expect(problems).toHaveLength(1);
  expect(problems[0]).not.toContain(text);
  expect(problems[0]).not.toContain("canary");
});

test("the tier is one that GitLab knows", () => {
  const read = (tier: string) =>
    environmentOf(aDeployment({ annotations: { "towline.dev/environment-tier": tier } }), "towline");
  expect(read(" production ")).toMatchObject({ tier: "production", problems: [] });
  expect(read("live").tier).toBeUndefined();
  expect(read("live").problems).toMatchObject([
    expect.stringContaining('"live" is not known; use production, staging'),
  ]);
});

test("where the objects serve it is known besides the link, and an invalid record is nobody's mistake to mend", () => {
  const served = (text: string) =>
    environmentOf(aDeployment({ annotations: { "towline.dev/served-url": text } }), "towline");
  expect(served("https://shop.example.com/")).toMatchObject({ url: undefined, servedUrl: "https://shop.example.com/" });
  expect(served("javascript:alert(1)")).toMatchObject({ servedUrl: undefined, problems: [] });
});
