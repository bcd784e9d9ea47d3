"""TLS of the listeners: loading, checking and reloading of certificates.

Owns the files' meaning, not whether TLS is needed: that is `server`'s. A client certificate opens the connection; it is
no identity, the call's credentials are.
"""

import grpc
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

from shared.config import TlsSettings
from shared.watched import WatchedFiles


def server_credentials(settings: TlsSettings) -> grpc.ServerCredentials:
    """Credentials that look at the files again at every new connection.

    Raises ConfigError when they cannot be read, are not PEM, or do not belong together. A renewal that is half written
    changes nothing until it is whole.
    """
    paths = [path for path in (settings.cert_file, settings.key_file, settings.client_ca_file) if path is not None]
    files = WatchedFiles(paths, "PALIMPSEST_TLS__CERT_FILE, __KEY_FILE, __CLIENT_CA_FILE", _configuration)
    sent = files.value()

    def changed() -> grpc.ServerCertificateConfiguration | None:
        nonlocal sent
        newest = files.value()
        if newest is sent:
            return None
        sent = newest
        return newest

    return grpc.dynamic_ssl_server_credentials(
        sent,
        changed,  # type: ignore[arg-type]  # the stubs forgot None, "no change"
        require_client_authentication=settings.client_ca_file is not None,
    )


def _configuration(cert: bytes, key: bytes, client_ca: bytes | None = None) -> grpc.ServerCertificateConfiguration:
    try:
        chain = x509.load_pem_x509_certificates(cert)
    except ValueError as error:
        raise ValueError("the certificate is not PEM (-----BEGIN CERTIFICATE-----)") from error
    try:
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise ValueError("the key is not an unencrypted PEM private key") from error
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    if chain[0].public_key().public_bytes(*form) != private.public_key().public_bytes(*form):
        raise ValueError("the key is not the key of the (first) certificate")
    if client_ca is not None:
        try:
            x509.load_pem_x509_certificates(client_ca)
        except ValueError as error:
            raise ValueError("the client authorities are not PEM certificates") from error
    return grpc.ssl_server_certificate_configuration([(key, cert)], root_certificates=client_ca)
