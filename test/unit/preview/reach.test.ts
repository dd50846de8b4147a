import { expect, test } from "vitest";
import { noCredentials } from "../../../src/model.ts";
import { hostsOf } from "../../../src/preview/reach.ts";
import { aDeployment } from "../../support/deployments.ts";

const from = (url: string) => aDeployment({ spec: { source: { url, ref: {}, path: "" } } });

test.each([
  ["https://Git.example.com/org/shop.git", "git.example.com"],
  ["https://git.example.com:3000/org/shop", "git.example.com:3000"],
  ["http://git.example.com/org/shop", "git.example.com"],
  ["git@git.example.com:org/shop.git", "git.example.com"],
  ["ssh://git@git.example.com:2222/org/shop", "git.example.com"],
])("with source %s, a preview may reach %s", (url, host) => {
  expect(hostsOf(from(url), noCredentials, [])).toEqual([host]);
});

test("the hosts of a deployment's logins, and those that the base names, may be reached as well", () => {
  const secretName = "shop/login";
  const tls = { secretName, insecureSkipTlsVerify: false };
  const credentials = {
    git: ["*", "git.example.com", "other.example.com:8443"].map((host) => ({ host, secretName, username: "me" })),
    oci: ["registry.example.com:5000", "docker.io", ""].map((registry) => ({ ...tls, registry, plainHttp: false })),
    helm: ["charts.example.com", ""].map((host) => ({ ...tls, host, passCredentialsAll: false })),
  };
  const named = ["public.example.com", "docker.io", "git.example.com"];
  expect(hostsOf(from("https://git.example.com/org/shop"), credentials, named)).toEqual([
    "git.example.com",
    "other.example.com:8443",
    "registry.example.com:5000",
    "*.docker.io",
    "production.cloudflare.docker.com",
    "charts.example.com",
    "public.example.com",
  ]);
});
