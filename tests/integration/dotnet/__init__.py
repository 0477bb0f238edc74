"""The SDK for .NET, played: nothing of it is run here."""
