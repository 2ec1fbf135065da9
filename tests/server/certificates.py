"""Certificates of tests, made with OpenSSL's command, and `lowgear serve` with one of them."""

import shutil
import subprocess

from served import ADDRESS, PATIENCE_S, ServerTest


def skip_without_openssl():
    """Ends the test as skipped, for ctest, where the command is missing."""
    if shutil.which("openssl") is None:
        print("skipped: there is no command openssl, which makes the certificates")
        raise SystemExit(77)


class Authority:
    """Makes keys and certificates with OpenSSL's command."""

    def __init__(self, folder, name="ca"):
        self.folder, self.name = folder, name
        self.run("req", "-x509", *self.new_key(name), "-subj", f"/CN={name}", "-days", "2", "-out", f"{name}.pem")

    def run(self, *words):
        subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True, timeout=PATIENCE_S)

    def new_key(self, name):
        return "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", f"{name}.key"

    def issue(self, name, names="", days="2"):
        """`names` as subjectAltName has them. Replaces NAME.pem and NAME.key."""
        (self.folder / "extensions").write_text(f"subjectAltName={names}\n" if names else "basicConstraints=CA:FALSE\n")
        self.run("req", *self.new_key(f"{name}.new"), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        self.run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{self.name}.pem", "-CAkey", f"{self.name}.key",
                 "-CAcreateserial", "-days", days, "-extfile", "extensions", "-out", f"{name}.new.pem")
        (self.folder / f"{name}.new.key").chmod(0o600)
        (self.folder / f"{name}.new.key").rename(self.folder / f"{name}.key")
        (self.folder / f"{name}.new.pem").rename(self.folder / f"{name}.pem")
        return self.folder / f"{name}.pem"


class TlsServerTest(ServerTest):
    """A server that speaks TLS only, with the certificate server.pem of the authority ca.pem."""

    client_ca = ""

    def setUp(self):
        super().setUp()
        self.authority = Authority(self.folder)
        self.authority.issue("server", f"IP:{ADDRESS},DNS:localhost")

    def write_config(self, name="server.yaml"):
        path = self.folder / name
        path.touch(0o600)
        path.write_text(f'state: "{self.state}"\nlisten: {{unix: "{self.folder}/socket", tls: ["{ADDRESS}:{self.port}"], '
                        f'token_file: "{self.folder}/tokens"}}\ntls:\n  certificate: "{self.folder}/server.pem"\n'
                        f'  key: "{self.folder}/server.key"\n{self.client_ca}{self.config}')
        return path
