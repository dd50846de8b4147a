import { describeForge } from "../../support/forge-conformance.ts";
import { useGiteaHost } from "../../support/gitea-host.ts";

describeForge("a real Gitea", useGiteaHost);
