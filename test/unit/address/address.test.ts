import { expect, test } from "vitest";
import { isForbiddenAddress, resolveAllowed, senderGroup } from "../../../src/kit/address.ts";

test.each([
  "169.254.169.254",
  "169.254.0.1",
  "100.100.100.200",
  "192.0.0.192",
  "168.63.129.16",
  "fe80::1",
  "fe80::1%eth0",
  "febf::1",
  "fd00:ec2::254",
  "fd20:ce::254",
  "::ffff:169.254.169.254",
  "::ffff:a9fe:a9fe",
  "0:0:0:0:0:ffff:a83f:8110",
  "::169.254.169.254",
  "::ffff:0:169.254.169.254",
  "64:ff9b::169.254.169.254",
  "64:ff9b::a83f:8110",
  "64:ff9b:1::169.254.169.254",
  "64:ff9b:1:a9fe:a9:fe00::",
  "2002:a9fe:a9fe::1",
  "2002:a83f:8110:1:2:3:4:5",
])("%s is a forbidden address for connections", (address) => {
  expect(isForbiddenAddress(address)).toBe(true);
});

test.each([
  "10.0.0.7",
  "127.0.0.1",
  "169.253.255.255",
  "168.63.129.17",
  "::1",
  "::",
  "fd00:ec2::255",
  "fec0::1",
  "::ffff:10.0.0.7",
  "64:ff9b::10.0.0.7",
  "2002:0a00:0007::1",
  "2001:db8::a9fe:a9fe",
])("%s is allowed because a cluster or git host may have it", (address) => {
  expect(isForbiddenAddress(address)).toBe(false);
});

test("a host name is refused if one of its addresses is forbidden", async () => {
  const find = () => Promise.resolve([{ address: "10.0.0.7" }, { address: "64:ff9b::a9fe:a9fe" }]);
  await expect(resolveAllowed("git.example.com", find)).rejects.toThrow(
    "git.example.com is a link-local or metadata address",
  );
  expect(await resolveAllowed("[2001:db8::1]", find)).toEqual(["2001:db8::1"]);
});

test("an IPv6 /64 counts as one sender, and an IPv4-mapped address as its IPv4 address", () => {
  expect(senderGroup("::ffff:10.0.0.7")).toBe("10.0.0.7");
  expect(senderGroup("2001:db8:0:1::1")).toBe(senderGroup("2001:db8:0:1:ffff::2"));
  expect(senderGroup("2001:db8:0:1::1")).not.toBe(senderGroup("2001:db8:0:2::1"));
});
