import { describeForge } from "../../support/forge-conformance.ts";
import { useGithubHost } from "../../support/github-host.ts";

describeForge("GitHub with a token", () => useGithubHost());
describeForge("GitHub as an App", () => useGithubHost({ as: "app" }));
describeForge("GitHub as an App with check runs", () => useGithubHost({ as: "app", grants: "checks" }));
